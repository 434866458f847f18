package certificatesigning

import (
	"context"
	"reflect"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/authz/signer"
)

// Name is the plugin's name.
const Name = "CertificateSigning"

// Plugin is the admission plugin. Make one with New.
type Plugin struct{ authz authz.Authorizer }

var _ admission.Validator = (*Plugin)(nil)

// New returns the plugin. The authorizer is usually the API server's own.
func New(authorizer authz.Authorizer) *Plugin { return &Plugin{authorizer} }

// Name implements admission.Plugin.
func (*Plugin) Name() string { return Name }

// Handles implements admission.Plugin.
func (*Plugin) Handles(op admission.Operation) bool { return op == admission.Update }

// Validate implements admission.Validator. The signer that counts is the stored one.
func (p *Plugin) Validate(ctx context.Context, r *admission.Request) error {
	if r.Subresource != "status" || r.Resource.GroupResource() != certificatesv1.Resource("certificatesigningrequests") {
		return nil
	}
	old, ok := r.OldObject.(*certificatesv1.CertificateSigningRequest)
	if !ok {
		return admission.Forbidden(r, "expected type CertificateSigningRequest, got: %T", r.OldObject)
	}
	next, ok := r.Object.(*certificatesv1.CertificateSigningRequest)
	if !ok {
		return admission.Forbidden(r, "expected type CertificateSigningRequest, got: %T", r.Object)
	}
	if reflect.DeepEqual(old.Status.Certificate, next.Status.Certificate) && equality.Semantic.DeepEqual(old.Status.Conditions, next.Status.Conditions) {
		return nil
	}
	if name := old.Spec.SignerName; !signer.Allowed(ctx, p.authz, r.User, signer.Sign, name) {
		return admission.Forbidden(r, "user not permitted to sign requests with signerName %q", name)
	}
	return nil
}
