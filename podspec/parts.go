package podspec

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateResourceName requires a name with a domain, or one that the API defines, be it for quotas.
func ValidateResourceName(name corev1.ResourceName, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, message := range validation.IsQualifiedName(string(name)) {
		errs = append(errs, field.Invalid(path, name, message))
	}
	if len(errs) == 0 && !strings.Contains(string(name), "/") && !standardResource(name) {
		errs = append(errs, field.Invalid(path, name, "must be a standard resource type or fully qualified"))
	}
	return errs
}

// Overcommittable reports whether containers may have a limit for a resource that is above their request.
func Overcommittable(name corev1.ResourceName) bool { return overcommittable(name) }

// ValidateContainerResources validates what a container without resource claims requests, and its limits.
func ValidateContainerResources(r *corev1.ResourceRequirements, path *field.Path) field.ErrorList {
	v := newValidator(&corev1.PodSpec{}, nil, Options{})
	v.requirements(r, path, false)
	return v.errs
}

// ValidateTolerations validates tolerations for any pod.
func ValidateTolerations(list []corev1.Toleration, path *field.Path) field.ErrorList {
	v := newValidator(&corev1.PodSpec{}, nil, Options{})
	v.tolerations(list, path)
	return v.errs
}

// ValidateTemplateMetadata validates the metadata of a template of objects other than pods: it has labels and annotations alone.
func ValidateTemplateMetadata(meta *metav1.ObjectMeta, path *field.Path) field.ErrorList {
	var r report
	r.templateMetadata(meta, path)
	return r.errs
}

// ValidateNodeSelector validates a selector of nodes, whose values must be values of labels.
func ValidateNodeSelector(s *corev1.NodeSelector, path *field.Path) field.ErrorList {
	var r report
	r.nodeSelector(s, path, false)
	return r.errs
}
