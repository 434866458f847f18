package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry/internal/check"
)

func validateRole(role *rbacv1.Role) field.ErrorList { return validateRules(role.Rules, true, nil) }

func validateRoleUpdate(role, _ *rbacv1.Role) field.ErrorList { return validateRole(role) }

func validateClusterRole(role *rbacv1.ClusterRole) field.ErrorList {
	return validateRules(role.Rules, false, validateAggregation(role, false))
}

// validateClusterRoleUpdate accepts updates of roles from before label values were checked.
func validateClusterRoleUpdate(role, old *rbacv1.ClusterRole) field.ErrorList {
	lax := false
	if old.AggregationRule != nil {
		for _, selector := range old.AggregationRule.ClusterRoleSelectors {
			lax = lax || len(metav1validation.ValidateLabelSelector(&selector, metav1validation.LabelSelectorValidationOptions{}, nil)) > 0
		}
	}
	return validateRules(role.Rules, false, validateAggregation(role, lax))
}

func validateAggregation(role *rbacv1.ClusterRole, lax bool) field.ErrorList {
	if role.AggregationRule == nil {
		return nil
	}
	path := field.NewPath("aggregationRule", "clusterRoleSelectors")
	if len(role.AggregationRule.ClusterRoleSelectors) == 0 {
		return field.ErrorList{field.Required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil")}
	}
	var errs field.ErrorList
	options := metav1validation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: lax}
	for i, selector := range role.AggregationRule.ClusterRoleSelectors {
		errs = append(errs, metav1validation.ValidateLabelSelector(&selector, options, path.Index(i))...)
		if _, err := metav1.LabelSelectorAsSelector(&selector); err != nil {
			errs = append(errs, field.Invalid(path.Index(i), nil, "invalid label selector."))
		}
	}
	return errs
}

// validateRules returns the errors of rules, then others, then missing verbs: the order of upstream's two ways
// of validation.
func validateRules(rules []rbacv1.PolicyRule, namespaced bool, others field.ErrorList) field.ErrorList {
	var errs, required field.ErrorList
	for i, rule := range rules {
		path := field.NewPath("rules").Index(i)
		if len(rule.Verbs) == 0 {
			required = append(required, field.Required(path.Child("verbs"), ""))
		}
		if len(rule.NonResourceURLs) > 0 {
			invalid := func(message string) {
				errs = append(errs, field.Invalid(path.Child("nonResourceURLs"), rule.NonResourceURLs, message))
			}
			if namespaced {
				invalid("namespaced rules cannot apply to non-resource URLs")
			}
			if len(rule.APIGroups)+len(rule.Resources)+len(rule.ResourceNames) > 0 {
				invalid("rules cannot apply to both regular resources and non-resource URLs")
			}
			continue
		}
		if len(rule.APIGroups) == 0 {
			errs = append(errs, field.Required(path.Child("apiGroups"), "resource rules must supply at least one api group"))
		}
		if len(rule.Resources) == 0 {
			errs = append(errs, field.Required(path.Child("resources"), "resource rules must supply at least one resource"))
		}
	}
	return append(append(errs, others...), required...)
}

func validateRoleBinding(b *rbacv1.RoleBinding) field.ErrorList {
	return validateBinding(b.RoleRef, b.Subjects, "Role", "ClusterRole")
}

func validateRoleBindingUpdate(b, old *rbacv1.RoleBinding) field.ErrorList {
	return append(validateRoleBinding(b), immutableRef(b.RoleRef, old.RoleRef)...)
}

func validateClusterRoleBinding(b *rbacv1.ClusterRoleBinding) field.ErrorList {
	return validateBinding(b.RoleRef, b.Subjects, "ClusterRole")
}

func validateClusterRoleBindingUpdate(b, old *rbacv1.ClusterRoleBinding) field.ErrorList {
	return append(validateClusterRoleBinding(b), immutableRef(b.RoleRef, old.RoleRef)...)
}

// immutableRef shows the reference as upstream's internal type does.
func immutableRef(ref, old rbacv1.RoleRef) field.ErrorList {
	return check.ImmutableAs(field.NewPath("roleRef"), ref, old, struct{ APIGroup, Kind, Name string }{ref.APIGroup, ref.Kind, ref.Name})
}

func validateBinding(ref rbacv1.RoleRef, subjects []rbacv1.Subject, kinds ...string) field.ErrorList {
	var errs, required field.ErrorList
	path := field.NewPath("roleRef")
	errs = append(errs, check.OneOf(path.Child("apiGroup"), ref.APIGroup, rbacv1.GroupName)...)
	errs = append(errs, check.OneOf(path.Child("kind"), ref.Kind, kinds...)...)
	if ref.Name != "" {
		errs = append(errs, check.Messages(path.Child("name"), ref.Name, content.IsPathSegmentName(ref.Name))...)
	}
	namespaced := len(kinds) > 1
	for i, s := range subjects {
		path := field.NewPath("subjects").Index(i)
		errs = append(errs, validateSubject(s, namespaced, path)...)
		if s.Name == "" {
			required = append(required, field.Required(path.Child("name"), ""))
		}
	}
	if ref.Name == "" {
		required = append(required, field.Required(path.Child("name"), ""))
	}
	return append(errs, required...)
}

// validateSubject validates all but a missing name.
func validateSubject(s rbacv1.Subject, namespaced bool, path *field.Path) field.ErrorList {
	switch s.Kind {
	case rbacv1.ServiceAccountKind:
		var errs field.ErrorList
		if s.Name != "" {
			errs = check.Messages(path.Child("name"), s.Name, apivalidation.ValidateServiceAccountName(s.Name, false))
		}
		errs = append(errs, check.OneOf(path.Child("apiGroup"), s.APIGroup, "")...)
		if !namespaced && s.Namespace == "" {
			errs = append(errs, field.Required(path.Child("namespace"), ""))
		}
		return errs
	case rbacv1.UserKind, rbacv1.GroupKind:
		return check.OneOf(path.Child("apiGroup"), s.APIGroup, rbacv1.GroupName)
	default:
		return check.OneOf(path.Child("kind"), s.Kind, rbacv1.ServiceAccountKind, rbacv1.UserKind, rbacv1.GroupKind)
	}
}
