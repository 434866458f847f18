package admissionregistration

import (
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry/internal/check"
)

// requiredOneOf requires one of the supported values.
func requiredOneOf[T ~string](path *field.Path, value *T, supported ...T) field.ErrorList {
	if value == nil {
		return field.ErrorList{field.Required(path, "")}
	}
	return check.OneOf(path, *value, supported...)
}

func validateParamKind(k *admissionv1.ParamKind, path *field.Path) field.ErrorList {
	errs := validateAPIVersion(k.APIVersion, path.Child("apiVersion"))
	if k.Kind == "" {
		return append(errs, field.Required(path.Child("kind"), ""))
	}
	if messages := validation.IsDNS1035Label(strings.ToLower(k.Kind)); len(messages) > 0 {
		errs = append(errs, field.Invalid(path.Child("kind"), k.Kind,
			"may have mixed case, but should otherwise match: "+strings.Join(messages, ",")))
	}
	return errs
}

func validateAPIVersion(value string, path *field.Path) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	group, version, ok := strings.Cut(value, "/")
	if !ok {
		group, version = "", value
	}
	if strings.Contains(version, "/") {
		return field.ErrorList{field.Invalid(path, value, "unexpected GroupVersion string: "+value)}
	}
	var errs field.ErrorList
	if group != "" {
		if messages := validation.IsDNS1123Subdomain(group); len(messages) > 0 {
			errs = append(errs, field.Invalid(path, group, strings.Join(messages, ",")))
		}
	}
	if version == "" {
		return append(errs, field.Invalid(path, value, "version must be specified"))
	}
	if messages := validation.IsDNS1035Label(version); len(messages) > 0 {
		errs = append(errs, field.Invalid(path, version, strings.Join(messages, ",")))
	}
	return errs
}

func validateMatch(m *admissionv1.MatchResources, path *field.Path) field.ErrorList {
	errs := requiredOneOf(path.Child("matchPolicy"), m.MatchPolicy, admissionv1.Equivalent, admissionv1.Exact)
	errs = append(errs, requiredSelector(m.NamespaceSelector, path.Child("namespaceSelector"))...)
	errs = append(errs, requiredSelector(m.ObjectSelector, path.Child("objectSelector"))...)
	for i := range m.ResourceRules {
		errs = append(errs, validateNamedRule(&m.ResourceRules[i], path.Child("resourceRules").Index(i))...)
	}
	for i := range m.ExcludeResourceRules {
		errs = append(errs, validateNamedRule(&m.ExcludeResourceRules[i], path.Child("excludeResourceRules").Index(i))...)
	}
	return errs
}

func requiredSelector(s *metav1.LabelSelector, path *field.Path) field.ErrorList {
	if s == nil {
		return field.ErrorList{field.Required(path, "")}
	}
	return metavalidation.ValidateLabelSelector(s, metavalidation.LabelSelectorValidationOptions{}, path)
}

func validateNamedRule(rule *admissionv1.NamedRuleWithOperations, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, name := range rule.ResourceNames {
		at := path.Child("resourceNames").Index(i)
		errs = append(errs, check.Messages(at, name, content.IsPathSegmentName(name))...)
		if slices.Contains(rule.ResourceNames[:i], name) {
			errs = append(errs, field.Duplicate(at, name))
		}
	}
	return append(errs, validateRule(&rule.RuleWithOperations, path)...)
}

// mutatingOperations are those that a policy can mutate.
func mutatingOperations() []admissionv1.OperationType {
	return []admissionv1.OperationType{admissionv1.OperationAll, admissionv1.Connect, admissionv1.Create, admissionv1.Update}
}

// validateOperations refuses operations of rules that are not supported; nil supports all.
func validateOperations(rules []admissionv1.NamedRuleWithOperations, supported []admissionv1.OperationType, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, rule := range rules {
		for _, op := range rule.Operations {
			if supported != nil {
				errs = append(errs, check.OneOf(path.Child("resourceRules", "operations"), op, supported...)...)
			}
		}
	}
	return errs
}

// validateValidatingBinding validates a binding that replaces old, or a new one if old is nil.
func validateValidatingBinding(b, old *admissionv1.ValidatingAdmissionPolicyBinding) field.ErrorList {
	path := field.NewPath("spec")
	noPolicy, noActions := b.Spec.PolicyName == "", len(b.Spec.ValidationActions) == 0
	// What upstream declares comes last. It is not asked of fields that stay as they are, of which other code then says the same.
	var errs, declared field.ErrorList
	switch {
	case noPolicy && old != nil && old.Spec.PolicyName == "":
		errs = append(errs, field.Required(path.Child("policyName"), ""))
	case noPolicy:
		declared = append(declared, field.Required(path.Child("policyName"), ""))
	}
	errs = append(errs, validateBinding(b.Spec.PolicyName, b.Spec.ParamRef, b.Spec.MatchResources)...)
	errs = append(errs, validateActions(b.Spec.ValidationActions, path.Child("validationActions"))...)
	switch {
	case noActions && old != nil && len(old.Spec.ValidationActions) == 0:
		errs = append(errs, field.Required(path.Child("validationActions"), "at least one validation action is required"))
	case noActions:
		declared = append(declared, field.Required(path.Child("validationActions"), ""))
	}
	return append(errs, declared...)
}

func validateMutatingBinding(b *admissionv1.MutatingAdmissionPolicyBinding) field.ErrorList {
	path := field.NewPath("spec")
	var errs field.ErrorList
	if b.Spec.PolicyName == "" {
		errs = append(errs, field.Required(path.Child("policyName"), ""))
	}
	errs = append(errs, validateBinding(b.Spec.PolicyName, b.Spec.ParamRef, b.Spec.MatchResources)...)
	if b.Spec.MatchResources != nil {
		errs = append(errs, validateOperations(b.Spec.MatchResources.ResourceRules, mutatingOperations(), path.Child("matchResources"))...)
	}
	return errs
}

func validateBinding(policy string, params *admissionv1.ParamRef, match *admissionv1.MatchResources) field.ErrorList {
	path := field.NewPath("spec")
	var errs field.ErrorList
	if policy != "" {
		errs = append(errs, check.Messages(path.Child("policyName"), policy, apivalidation.NameIsDNSSubdomain(policy, false))...)
	}
	if params != nil {
		errs = append(errs, validateParamRef(params, path.Child("paramRef"))...)
	}
	if match != nil {
		errs = append(errs, validateMatch(match, path.Child("matchResources"))...)
	}
	return errs
}

func validateParamRef(r *admissionv1.ParamRef, path *field.Path) field.ErrorList {
	const both = "name and selector are mutually exclusive"
	var errs field.ErrorList
	if r.Name != "" {
		errs = append(errs, check.Messages(path.Child("name"), r.Name, content.IsPathSegmentName(r.Name))...)
		if r.Selector != nil {
			errs = append(errs, field.Forbidden(path.Child("name"), both))
		}
	}
	if r.Selector != nil {
		errs = append(errs, metavalidation.ValidateLabelSelector(r.Selector, metavalidation.LabelSelectorValidationOptions{}, path.Child("selector"))...)
		if r.Name != "" {
			errs = append(errs, field.Forbidden(path.Child("selector"), both))
		}
	}
	if r.Name == "" && r.Selector == nil {
		errs = append(errs, field.Required(path, "one of name or selector must be specified"))
	}
	var action admissionv1.ParameterNotFoundActionType
	if r.ParameterNotFoundAction != nil {
		action = *r.ParameterNotFoundAction
	}
	return append(errs, check.RequiredOneOf(path.Child("parameterNotFoundAction"), action, admissionv1.DenyAction, admissionv1.AllowAction)...)
}

func validateActions(actions []admissionv1.ValidationAction, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, action := range actions {
		errs = append(errs, check.OneOf(path.Index(i), action, admissionv1.Audit, admissionv1.Deny, admissionv1.Warn)...)
		if slices.Contains(actions[:i], action) {
			errs = append(errs, field.Duplicate(path.Index(i), action))
		}
	}
	if slices.Contains(actions, admissionv1.Deny) && slices.Contains(actions, admissionv1.Warn) {
		errs = append(errs, field.Invalid(path, actions, "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)"))
	}
	return errs
}
