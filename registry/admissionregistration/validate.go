package admissionregistration

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry/internal/check"
)

// demands are the rules that depend on what a configuration was before.
type demands struct {
	unique       bool // names of webhooks
	noEffects    bool // side effects none, or none in a dry run
	knownReviews bool // of the review versions, one that servers know
	selectors    metavalidation.LabelSelectorValidationOptions
	conditions   conditions
}

// strict are the demands on new configurations.
func strict(o Options) demands {
	return demands{unique: true, noEffects: true, knownReviews: true, conditions: conditions{compile: o.Compile}}
}

// lenient are the demands on an update: what the old configuration did not meet, the new one need not meet either.
func lenient(o Options, hooks, old []hook) demands {
	d := strict(o)
	d.unique = allDifferent(old)
	d.noEffects = !slices.ContainsFunc(old, func(h hook) bool { return h.SideEffects == nil || !slices.Contains(noEffects(), *h.SideEffects) })
	d.knownReviews = !slices.ContainsFunc(old, func(h hook) bool {
		return len(h.AdmissionReviewVersions) > 0 && !slices.ContainsFunc(h.AdmissionReviewVersions, knownReview)
	})
	d.selectors.AllowInvalidLabelValueInSelector = slices.ContainsFunc(old, invalidSelector)
	d.conditions.unchanged = slices.EqualFunc(hooks, old, func(a, b hook) bool { return slices.Equal(a.MatchConditions, b.MatchConditions) })
	for _, h := range old {
		for _, c := range h.MatchConditions {
			d.conditions.stored = append(d.conditions.stored, c.Expression)
		}
	}
	return d
}

func allDifferent(hooks []hook) bool {
	seen := map[string]bool{}
	for _, h := range hooks {
		if seen[h.Name] {
			return false
		}
		seen[h.Name] = true
	}
	return true
}

func invalidSelector(h hook) bool {
	var none metavalidation.LabelSelectorValidationOptions
	return len(metavalidation.ValidateLabelSelector(h.NamespaceSelector, none, nil)) > 0 ||
		len(metavalidation.ValidateLabelSelector(h.ObjectSelector, none, nil)) > 0
}

func noEffects() []admissionv1.SideEffectClass {
	return []admissionv1.SideEffectClass{admissionv1.SideEffectClassNone, admissionv1.SideEffectClassNoneOnDryRun}
}

func anyEffects() []admissionv1.SideEffectClass {
	return append(noEffects(), admissionv1.SideEffectClassSome, admissionv1.SideEffectClassUnknown)
}

// reviewVersions are the versions of AdmissionReview that servers understand.
func reviewVersions() []string { return []string{"v1", "v1beta1"} }

func knownReview(version string) bool { return slices.Contains(reviewVersions(), version) }

func validateHooks(hooks []hook, d demands) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i := range hooks {
		h, path := &hooks[i], field.NewPath("webhooks").Index(i)
		errs = append(errs, validateHook(h, d, path)...)
		errs = append(errs, validateReviewVersions(h.AdmissionReviewVersions, d.knownReviews, path.Child("admissionReviewVersions"))...)
		if d.unique && h.Name != "" && seen[h.Name] {
			errs = append(errs, field.Duplicate(path.Child("name"), h.Name))
		}
		seen[h.Name] = true
	}
	return errs
}

func validateHook(h *hook, d demands, path *field.Path) field.ErrorList {
	errs := validation.IsFullyQualifiedName(path.Child("name"), h.Name)
	for i := range h.Rules {
		errs = append(errs, validateRule(&h.Rules[i], path.Child("rules").Index(i))...)
	}
	errs = append(errs, optional(path.Child("failurePolicy"), h.FailurePolicy, admissionv1.Fail, admissionv1.Ignore)...)
	errs = append(errs, optional(path.Child("matchPolicy"), h.MatchPolicy, admissionv1.Equivalent, admissionv1.Exact)...)
	errs = append(errs, validateEffects(h.SideEffects, d.noEffects, path.Child("sideEffects"))...)
	if s := h.TimeoutSeconds; s != nil && (*s < 1 || *s > 30) {
		errs = append(errs, field.Invalid(path.Child("timeoutSeconds"), *s, "the timeout value must be between 1 and 30 seconds"))
	}
	errs = append(errs, metavalidation.ValidateLabelSelector(h.NamespaceSelector, d.selectors, path.Child("namespaceSelector"))...)
	errs = append(errs, metavalidation.ValidateLabelSelector(h.ObjectSelector, d.selectors, path.Child("objectSelector"))...)
	errs = append(errs, optional(path.Child("reinvocationPolicy"), h.reinvocation,
		admissionv1.IfNeededReinvocationPolicy, admissionv1.NeverReinvocationPolicy)...)
	errs = append(errs, validateClient(&h.ClientConfig, path.Child("clientConfig"))...)
	return append(errs, d.conditions.validate(h.MatchConditions, path.Child("matchConditions"))...)
}

// optional requires nil or one of the supported values.
func optional[T ~string](path *field.Path, value *T, supported ...T) field.ErrorList {
	if value == nil {
		return nil
	}
	return check.OneOf(path, *value, supported...)
}

func validateEffects(effects *admissionv1.SideEffectClass, none bool, path *field.Path) field.ErrorList {
	allowed := anyEffects()
	if none {
		allowed = noEffects()
	}
	if effects != nil {
		return check.OneOf(path, *effects, allowed...)
	}
	var names []string
	for _, class := range allowed {
		names = append(names, string(class))
	}
	return field.ErrorList{field.Required(path, "must specify one of "+strings.Join(names, ", "))}
}

func validateReviewVersions(versions []string, known bool, path *field.Path) field.ErrorList {
	if len(versions) == 0 {
		return field.ErrorList{field.Required(path, "must specify one of "+strings.Join(reviewVersions(), ", "))}
	}
	var errs field.ErrorList
	for i, v := range versions {
		if slices.Contains(versions[:i], v) {
			errs = append(errs, field.Invalid(path.Index(i), v, "duplicate version"))
			continue
		}
		errs = append(errs, check.Messages(path.Index(i), v, validation.IsDNS1035Label(v))...)
	}
	if known && !slices.ContainsFunc(versions, knownReview) {
		errs = append(errs, field.Invalid(path, versions, "must include at least one of "+strings.Join(reviewVersions(), ", ")))
	}
	return errs
}

func validateRule(rule *admissionv1.RuleWithOperations, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	operations := path.Child("operations")
	errs = append(errs, validateWildcard(rule.Operations, operations, "operations")...)
	for i, op := range rule.Operations {
		errs = append(errs, check.OneOf(operations.Index(i), op,
			admissionv1.OperationAll, admissionv1.Connect, admissionv1.Create, admissionv1.Delete, admissionv1.Update)...)
	}
	errs = append(errs, validateWildcard(rule.APIGroups, path.Child("apiGroups"), "API groups")...)
	errs = append(errs, validateWildcard(rule.APIVersions, path.Child("apiVersions"), "API versions")...)
	for i, version := range rule.APIVersions {
		if version == "" {
			errs = append(errs, field.Required(path.Child("apiVersions").Index(i), ""))
		}
	}
	errs = append(errs, validateResources(rule.Resources, path.Child("resources"))...)
	return append(errs, optional(path.Child("scope"), rule.Scope,
		admissionv1.AllScopes, admissionv1.ClusterScope, admissionv1.NamespacedScope)...)
}

// validateWildcard requires at least one value, and that "*" is alone.
func validateWildcard[T ~string](values []T, path *field.Path, what string) field.ErrorList {
	switch {
	case len(values) == 0:
		return field.ErrorList{field.Required(path, "")}
	case len(values) > 1 && slices.Contains(values, "*"):
		return field.ErrorList{field.Invalid(path, values, fmt.Sprintf("if '*' is present, must not specify other %s", what))}
	}
	return nil
}

// validateResources refuses resources that an earlier one includes.
func validateResources(resources []string, path *field.Path) field.ErrorList {
	if len(resources) == 0 {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	allOf, ofAll := map[string]bool{}, map[string]bool{} // x of x/*, y of */y
	var plain bool                                       // upstream looks at the last resource without a subresource
	for i, r := range resources {
		if r == "" {
			errs = append(errs, field.Required(path.Index(i), ""))
			continue
		}
		resource, sub, ok := strings.Cut(r, "/")
		if !ok {
			plain = r != "*"
			continue
		}
		if allOf[resource] {
			errs = append(errs, field.Invalid(path.Index(i), r, fmt.Sprintf("if '%s/*' is present, must not specify %s", resource, r)))
		}
		if ofAll[sub] {
			errs = append(errs, field.Invalid(path.Index(i), r, fmt.Sprintf("if '*/%s' is present, must not specify %s", sub, r)))
		}
		allOf[resource] = allOf[resource] || sub == "*"
		ofAll[sub] = ofAll[sub] || resource == "*"
	}
	if len(resources) > 1 && slices.Contains(resources, "*/*") {
		errs = append(errs, field.Invalid(path, resources, "if '*/*' is present, must not specify other resources"))
	}
	if plain && slices.Contains(resources, "*") {
		errs = append(errs, field.Invalid(path, resources, "if '*' is present, must not specify other resources without subresources"))
	}
	return errs
}
