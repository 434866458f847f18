package clustertrustbundleattest

import (
	"context"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/authz/signer"
)

// Name is the plugin's name.
const Name = "ClusterTrustBundleAttest"

// Plugin is the admission plugin. Make one with New.
type Plugin struct{ authz authz.Authorizer }

var _ admission.Validator = (*Plugin)(nil)

// New returns the plugin. The authorizer is usually the API server's own.
func New(authorizer authz.Authorizer) *Plugin { return &Plugin{authorizer} }

// Name implements admission.Plugin.
func (*Plugin) Name() string { return Name }

// Handles implements admission.Plugin.
func (*Plugin) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

// Validate implements admission.Validator. The signer of a stored bundle never changes.
func (p *Plugin) Validate(ctx context.Context, r *admission.Request) error {
	if r.Resource.GroupResource() != certificatesv1.Resource("clustertrustbundles") {
		return nil
	}
	bundle, ok := r.Object.(*certificatesv1.ClusterTrustBundle)
	if !ok {
		return admission.Forbidden(r, "expected type ClusterTrustBundle, got: %T", r.OldObject)
	}
	name := bundle.Spec.SignerName
	old, _ := r.OldObject.(*certificatesv1.ClusterTrustBundle)
	if name == "" || old != nil && onlyForGC(bundle, old) {
		return nil
	}
	if !signer.Allowed(ctx, p.authz, r.User, signer.Attest, name) {
		return admission.Forbidden(r, "user not permitted to attest for signerName %q", name)
	}
	return nil
}

// onlyForGC reports whether an update changes at most what the garbage collector changes.
func onlyForGC(next, old *certificatesv1.ClusterTrustBundle) bool {
	same := next.DeepCopy()
	same.OwnerReferences, same.Finalizers, same.ManagedFields = old.OwnerReferences, old.Finalizers, old.ManagedFields
	same.ResourceVersion = old.ResourceVersion
	return equality.Semantic.DeepEqual(same, old)
}
