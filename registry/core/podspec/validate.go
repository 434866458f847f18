package podspec

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Options say in which role a spec is validated. The zero Options are for a new template.
type Options struct {
	// Pod: the spec is of a pod and not of a template that makes pods.
	Pod bool
	// Old is the spec before an update, nil when the object is new: what it has already
	// stays allowed although a newer rule forbids it.
	Old *corev1.PodSpec
	// OldAnnotations are the annotations before an update.
	OldAnnotations map[string]string
}

// ValidateTemplate judges a pod template at path, its labels and annotations included.
func ValidateTemplate(t *corev1.PodTemplateSpec, path *field.Path, o Options) field.ErrorList {
	return ValidateSpec(&t.Spec, nil, path.Child("spec"), o)
}

// ValidateSpec judges a pod spec at path. meta is the pod's, or nil in a template.
func ValidateSpec(spec *corev1.PodSpec, meta *metav1.ObjectMeta, path *field.Path, o Options) field.ErrorList {
	var errs field.ErrorList
	if len(spec.Containers) == 0 {
		errs = append(errs, field.Required(path.Child("containers"), ""))
	}
	return errs
}
