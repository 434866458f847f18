package certificatesubjectrestriction

import (
	"context"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/internal/signingrequest"
)

// Name is the plugin's name.
const Name = "CertificateSubjectRestriction"

// Plugin is the admission plugin. Make one with New.
type Plugin struct{}

var _ admission.Validator = (*Plugin)(nil)

// New returns the plugin.
func New() *Plugin { return &Plugin{} }

// Name implements admission.Plugin.
func (*Plugin) Name() string { return Name }

// Handles implements admission.Plugin.
func (*Plugin) Handles(op admission.Operation) bool { return op == admission.Create }

// Validate implements admission.Validator.
func (*Plugin) Validate(_ context.Context, r *admission.Request) error {
	if r.Subresource != "" || r.Resource.GroupResource() != certificatesv1.Resource("certificatesigningrequests") {
		return nil
	}
	csr, ok := r.Object.(*certificatesv1.CertificateSigningRequest)
	if !ok {
		return admission.Forbidden(r, "expected type CertificateSigningRequest, got: %T", r.Object)
	}
	if csr.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName {
		return nil
	}
	asked, err := signingrequest.Parse(csr.Spec.Request)
	if err != nil {
		return admission.Forbidden(r, "failed to parse CSR: %w", err)
	}
	if slices.Contains(asked.Subject.Organization, authn.GroupMasters) {
		return admission.Forbidden(r, "use of %s signer with system:masters group is not allowed", certificatesv1.KubeAPIServerClientSignerName)
	}
	return nil
}
