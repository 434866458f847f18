package admissionregistration

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/api/admissionregistration/v1alpha1"
	"k8s.io/api/admissionregistration/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

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

// olderPolicy returns the versions in which older servers stored a kind of policies or bindings. Their format is that
// of v1, as which they are decoded. alpha sets the defaults that v1alpha1 has and v1 has not; nil means none.
func olderPolicy[T registry.Object](empty func() T, alpha func(T)) []registry.Older {
	older := func(version schema.GroupVersion, defaults func(T)) registry.Older {
		return registry.Older{
			GroupVersion: version,
			New:          func() runtime.Object { return empty() },
			ToStored: func(obj runtime.Object) registry.Object {
				stored := obj.DeepCopyObject().(T)
				if defaults != nil {
					defaults(stored)
				}
				return stored
			},
		}
	}
	return []registry.Older{older(v1beta1.SchemeGroupVersion, nil), older(v1alpha1.SchemeGroupVersion, alpha)}
}

// defaultAlphaParams sets v1alpha1's default.
func defaultAlphaParams(r *admissionv1.ParamRef) {
	if r != nil {
		unset(&r.ParameterNotFoundAction, admissionv1.DenyAction)
	}
}
