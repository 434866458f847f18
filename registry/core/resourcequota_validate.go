package core

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry/internal/check"
)

func validateQuotaSpec(spec *corev1.ResourceQuotaSpec, path *field.Path) field.ErrorList {
	errs := validateQuotaList(spec.Hard, path.Child("hard"))
	errs = append(errs, validateQuotaScopes(spec, path.Child("scopes"))...)
	if spec.ScopeSelector != nil {
		errs = append(errs, validateScopeSelector(spec, path.Child("scopeSelector"))...)
	}
	return errs
}

func validateQuotaStatusUpdate(q, _ *corev1.ResourceQuota) field.ErrorList {
	path := field.NewPath("status")
	return append(validateQuotaList(q.Status.Hard, path.Child("hard")), validateQuotaList(q.Status.Used, path.Child("used"))...)
}

// validateQuotaChange keeps the set of scopes: usage is not recounted for new ones.
func validateQuotaChange(q, old *corev1.ResourceQuota) field.ErrorList {
	set := func(scopes []corev1.ResourceQuotaScope) []corev1.ResourceQuotaScope {
		return slices.Compact(slices.Sorted(slices.Values(scopes)))
	}
	if slices.Equal(set(q.Spec.Scopes), set(old.Spec.Scopes)) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("spec", "scopes"), q.Spec.Scopes, apivalidation.FieldImmutableErrorMsg)}
}

func validateQuotaList(list corev1.ResourceList, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range sortedNames(list) {
		at, quantity := path.Key(string(name)), list[name]
		errs = append(errs, validateQuotaResource(name, at)...)
		if quantity.Sign() < 0 {
			errs = append(errs, field.Invalid(at, quantity.String(), apivalidation.IsNegativeErrorMsg))
		}
		if isInteger(name) && quantity.MilliValue()%1000 != 0 {
			errs = append(errs, field.Invalid(at, quantity, "must be an integer"))
		}
	}
	return errs
}

func validateQuotaResource(name corev1.ResourceName, path *field.Path) field.ErrorList {
	errs := check.Messages(path, name, validation.IsQualifiedName(string(name)))
	if strings.Contains(string(name), "/") || quotaResource(name) {
		return errs
	}
	if len(errs) == 0 && name != corev1.ResourceStorage {
		errs = append(errs, field.Invalid(path, name, "must be a standard resource type or fully qualified"))
	}
	return append(errs, field.Invalid(path, name, "must be a standard resource for quota"))
}

// quotaResource reports whether quotas support a name without a slash.
func quotaResource(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage,
		corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceRequestsStorage,
		corev1.ResourceRequestsEphemeralStorage,
		corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory, corev1.ResourceLimitsEphemeralStorage,
		corev1.ResourcePods, corev1.ResourceQuotas, corev1.ResourceServices, corev1.ResourceReplicationControllers,
		corev1.ResourceSecrets, corev1.ResourcePersistentVolumeClaims, corev1.ResourceConfigMaps,
		corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers:
		return true
	}
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) ||
		strings.HasPrefix(string(name), corev1.ResourceRequestsHugePagesPrefix)
}

func quotaScopeKnown(scope corev1.ResourceQuotaScope) bool {
	switch scope {
	case corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating,
		corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort,
		corev1.ResourceQuotaScopePriorityClass, corev1.ResourceQuotaScopeVolumeAttributesClass,
		corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return true
	}
	return false
}

// scopeFits reports whether a resource can be counted within a scope.
func scopeFits(scope corev1.ResourceQuotaScope, name corev1.ResourceName) bool {
	switch scope {
	case corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeNotBestEffort,
		corev1.ResourceQuotaScopePriorityClass, corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		switch name {
		case corev1.ResourcePods, corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceLimitsCPU,
			corev1.ResourceLimitsMemory, corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory:
			return true
		}
		return false
	case corev1.ResourceQuotaScopeBestEffort:
		return name == corev1.ResourcePods
	case corev1.ResourceQuotaScopeVolumeAttributesClass:
		return name == corev1.ResourcePersistentVolumeClaims || name == corev1.ResourceRequestsStorage
	}
	return true // unknown scopes are refused anyway
}

// unfitResources counts a quota's resources that do not fit a scope, once per scope.
type unfitResources struct {
	hard  corev1.ResourceList
	known map[corev1.ResourceQuotaScope]int
}

func unfitResourcesOf(spec *corev1.ResourceQuotaSpec) unfitResources {
	return unfitResources{hard: spec.Hard, known: map[corev1.ResourceQuotaScope]int{}}
}

// validate validates one scope; value is the value in the error if it does not fit.
func (m unfitResources) validate(scope corev1.ResourceQuotaScope, path *field.Path, value any) field.ErrorList {
	n, ok := m.known[scope]
	if !ok {
		for name := range m.hard {
			if quotaResource(name) && !scopeFits(scope, name) {
				n++
			}
		}
		m.known[scope] = n
	}
	var errs field.ErrorList
	for range n {
		errs = append(errs, field.Invalid(path, value, "unsupported scope applied to resource"))
	}
	return errs
}

func validateQuotaScopes(spec *corev1.ResourceQuotaSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	fit := unfitResourcesOf(spec)
	for _, scope := range spec.Scopes {
		if !quotaScopeKnown(scope) {
			errs = append(errs, field.Invalid(path, spec.Scopes, "unsupported scope"))
		}
		errs = append(errs, fit.validate(scope, path, spec.Scopes)...)
	}
	return append(errs, conflictingScopes(spec.Scopes, path, spec.Scopes)...)
}

func conflictingScopes(scopes []corev1.ResourceQuotaScope, path *field.Path, shown any) field.ErrorList {
	var errs field.ErrorList
	for _, pair := range [][2]corev1.ResourceQuotaScope{
		{corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort},
		{corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating},
	} {
		if slices.Contains(scopes, pair[0]) && slices.Contains(scopes, pair[1]) {
			errs = append(errs, field.Invalid(path, shown, "conflicting scopes"))
		}
	}
	return errs
}

func validateScopeSelector(spec *corev1.ResourceQuotaSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	var scopes []corev1.ResourceQuotaScope
	path = path.Child("matchExpressions")
	fit, shown := unfitResourcesOf(spec), internalSelector(spec.ScopeSelector)
	for _, r := range spec.ScopeSelector.MatchExpressions {
		if !quotaScopeKnown(r.ScopeName) {
			errs = append(errs, field.Invalid(path.Child("scopeName"), r.ScopeName, "unsupported scope"))
		}
		errs = append(errs, fit.validate(r.ScopeName, path, shown)...)
		errs = append(errs, validateScopeOperator(&r, path)...)
		scopes = append(scopes, r.ScopeName)
	}
	return append(errs, conflictingScopes(scopes, path, spec.Scopes)...)
}

// internalSelector returns a selector as upstream's internal type, whose fields have no JSON names, shows it in
// messages.
func internalSelector(s *corev1.ScopeSelector) any {
	type requirement struct {
		ScopeName corev1.ResourceQuotaScope
		Operator  corev1.ScopeSelectorOperator
		Values    []string
	}
	shown := struct{ MatchExpressions []requirement }{}
	for _, r := range s.MatchExpressions {
		shown.MatchExpressions = append(shown.MatchExpressions, requirement(r))
	}
	return shown
}

func validateScopeOperator(r *corev1.ScopedResourceSelectorRequirement, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch r.ScopeName {
	case corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort, corev1.ResourceQuotaScopeTerminating,
		corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		if r.Operator != corev1.ScopeSelectorOpExists {
			errs = append(errs, field.Invalid(path.Child("operator"), r.Operator,
				"must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"))
		}
	}
	switch r.Operator {
	case corev1.ScopeSelectorOpIn, corev1.ScopeSelectorOpNotIn:
		if len(r.Values) == 0 {
			errs = append(errs, field.Required(path.Child("values"), "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"))
		}
	case corev1.ScopeSelectorOpExists, corev1.ScopeSelectorOpDoesNotExist:
		if len(r.Values) != 0 {
			errs = append(errs, field.Invalid(path.Child("values"), r.Values, "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"))
		}
	default:
		errs = append(errs, field.Invalid(path.Child("operator"), r.Operator, "not a valid selector operator"))
	}
	return errs
}
