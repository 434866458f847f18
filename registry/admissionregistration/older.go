package admissionregistration

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/api/admissionregistration/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/registry"
)

// olderMutating returns the version that servers stored until 1.16. Its format is that of v1, as which it is
// decoded; only its defaults differ.
func olderMutating() []registry.Older {
	return []registry.Older{{
		GroupVersion: v1beta1.SchemeGroupVersion,
		New:          func() runtime.Object { return &admissionv1.MutatingWebhookConfiguration{} },
		ToStored: func(obj runtime.Object) registry.Object {
			c := obj.DeepCopyObject().(*admissionv1.MutatingWebhookConfiguration)
			for i := range c.Webhooks {
				w := &c.Webhooks[i]
				unset(&w.FailurePolicy, admissionv1.Ignore)
				unset(&w.MatchPolicy, admissionv1.Exact)
				unset(&w.SideEffects, admissionv1.SideEffectClassUnknown)
				unset(&w.TimeoutSeconds, olderTimeout)
				w.AdmissionReviewVersions = olderReviews(w.AdmissionReviewVersions)
			}
			return c
		},
	}}
}

// olderValidating is olderMutating for validating webhooks.
func olderValidating() []registry.Older {
	return []registry.Older{{
		GroupVersion: v1beta1.SchemeGroupVersion,
		New:          func() runtime.Object { return &admissionv1.ValidatingWebhookConfiguration{} },
		ToStored: func(obj runtime.Object) registry.Object {
			c := obj.DeepCopyObject().(*admissionv1.ValidatingWebhookConfiguration)
			for i := range c.Webhooks {
				w := &c.Webhooks[i]
				unset(&w.FailurePolicy, admissionv1.Ignore)
				unset(&w.MatchPolicy, admissionv1.Exact)
				unset(&w.SideEffects, admissionv1.SideEffectClassUnknown)
				unset(&w.TimeoutSeconds, olderTimeout)
				w.AdmissionReviewVersions = olderReviews(w.AdmissionReviewVersions)
			}
			return c
		},
	}}
}

// olderTimeout is v1beta1's default, in seconds.
const olderTimeout = 30

func olderReviews(versions []string) []string {
	if len(versions) == 0 {
		return []string{"v1beta1"}
	}
	return versions
}
