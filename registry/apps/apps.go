package apps

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/podspec"
	"github.com/keelson-dev/keelson/registry"
)

// Kinds returns the kinds of the group in discovery order.
func Kinds() []registry.Kind {
	return []registry.Kind{controllerRevisions(), daemonSets(), deployments(), replicaSets(), statefulSets()}
}

// validateSelected validates a selector and the template of the pods that it must select.
func validateSelected(selector *metav1.LabelSelector, template *corev1.PodTemplateSpec, o podspec.Options, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	selectorPath := path.Child("selector")
	if selector == nil {
		errs = append(errs, field.Required(selectorPath, ""))
	} else {
		errs = append(errs, metavalidation.ValidateLabelSelector(selector, metavalidation.LabelSelectorValidationOptions{}, selectorPath)...)
		if len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
			errs = append(errs, field.Invalid(selectorPath, selector, "empty selector is invalid for deployment"))
		}
	}
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return append(errs, field.Invalid(selectorPath, selector, "invalid label selector"))
	}
	path = path.Child("template")
	if !s.Matches(labels.Set(template.Labels)) {
		errs = append(errs, field.Invalid(path.Child("metadata", "labels"), template.Labels, "`selector` does not match template `labels`"))
	}
	errs = append(errs, podspec.ValidateTemplate(template, path, o)...)
	if policy := template.Spec.RestartPolicy; policy != corev1.RestartPolicyAlways {
		errs = append(errs, field.NotSupported(path.Child("spec", "restartPolicy"), policy, []corev1.RestartPolicy{corev1.RestartPolicyAlways}))
	}
	if template.Spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(path.Child("spec", "activeDeadlineSeconds"), "activeDeadlineSeconds in ReplicaSet is not Supported"))
	}
	return errs
}

// scaleSelector formats a selector for the scale subresource.
func scaleSelector(selector *metav1.LabelSelector) string {
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil { // never stored
		return ""
	}
	return s.String()
}

func valueOf(n *int32) int32 {
	if n == nil {
		return 0
	}
	return *n
}

// count is one of the replica counts of a status.
type count struct {
	field string
	value int32
}

// validateCounts requires that no part exceeds the total number of replicas.
func validateCounts(path *field.Path, replicas int32, parts []count) field.ErrorList {
	var errs field.ErrorList
	for _, c := range parts {
		if c.value > replicas {
			errs = append(errs, field.Invalid(path.Child(c.field), c.value, "cannot be greater than status.replicas"))
		}
	}
	return errs
}

// validateCollisions requires that the count of hash collisions never falls.
func validateCollisions(now, before *int32, status *field.Path) field.ErrorList {
	if before == nil || now != nil && *now >= *before {
		return nil
	}
	return field.ErrorList{field.Invalid(status.Child("collisionCount"), valueOf(now), "cannot be decremented")}
}
