package podspec

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// DefaultClaimTemplate fills unset fields of a claim in the volumeClaimTemplates of a StatefulSet. Such claims are
// complete objects: their type and their phase are set, too.
func DefaultClaimTemplate(c *corev1.PersistentVolumeClaim) {
	c.APIVersion, c.Kind = "v1", "PersistentVolumeClaim"
	DefaultClaim(c)
}

// ValidateClaimTemplate validates the spec of such a claim. Its metadata is validated when the claim is created.
func ValidateClaimTemplate(s *corev1.PersistentVolumeClaimSpec, path *field.Path) field.ErrorList {
	v := newValidator(&corev1.PodSpec{}, nil, Options{})
	v.claimSpec(s, path, claimLeniency{})
	return v.errs
}

// ValidateTemplateMeta validates the labels and annotations of a template, which ValidateTemplate does, too. StatefulSets
// report their errors twice.
func ValidateTemplateMeta(t *corev1.PodTemplateSpec, path *field.Path, o Options) field.ErrorList {
	v := newValidator(&t.Spec, nil, o)
	v.add(metavalidation.ValidateLabels(t.Labels, path.Child("labels"))...)
	v.add(apivalidation.ValidateAnnotations(t.Annotations, path.Child("annotations"))...)
	v.annotations(t.Annotations, path.Child("annotations"))
	return v.errs
}

// ClaimTemplatesInErrors returns the form that claims have in the messages of the API server.
func ClaimTemplatesInErrors(claims []corev1.PersistentVolumeClaim) json.RawMessage {
	untyped := make([]corev1.PersistentVolumeClaim, len(claims))
	for i := range claims {
		untyped[i] = *claims[i].DeepCopy()
		untyped[i].APIVersion, untyped[i].Kind = "", ""
	}
	if claims == nil {
		untyped = nil
	}
	return asInternal(untyped)
}
