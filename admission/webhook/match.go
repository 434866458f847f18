package webhook

import (
	"slices"

	registrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/internal/matching"
)

// exempt reports whether no webhook sees a request: a webhook that judges configurations of webhooks could not be
// removed any more.
func exempt(r *admission.Request) bool {
	return matching.Review(r) || r.Kind.Group == registrationv1.GroupName && slices.Contains([]string{
		"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration",
		"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
		"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding",
	}, r.Kind.Kind)
}

// version returns the version in which a webhook is to get a request; false means that its rules do not match. Under
// the policy Equivalent, they may match another version than the one that the client used.
func (h *hook) version(r *admission.Request, served []Version) (Version, bool) {
	asked := matching.Requested(r, served)
	for i := range h.Rules {
		if matching.Rule(&h.Rules[i], asked.Resource, r) {
			return asked, true
		}
	}
	if !h.matchesEquivalent() {
		return Version{}, false
	}
	for i := range h.Rules {
		for _, v := range served {
			if matching.Rule(&h.Rules[i], v.Resource, r) {
				return v, true
			}
		}
	}
	return Version{}, false
}
