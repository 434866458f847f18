package ownerreferencespermissionenforcement

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/authz"
)

// Name is the plugin's name.
const Name = "OwnerReferencesPermissionEnforcement"

// Served is a resource that is served.
type Served struct {
	schema.GroupVersionResource
	Namespaced bool // whether its objects live in namespaces
}

// Resolve returns the resources of a kind. Its error, usually a *meta.NoKindMatchError, becomes a part of the message to the client.
type Resolve func(schema.GroupVersionKind) ([]Served, error)

// Plugin is the admission plugin. Make one with New.
type Plugin struct {
	authz   authz.Authorizer
	resolve Resolve
}

var _ admission.Validator = (*Plugin)(nil)

// New returns the plugin. The authorizer is usually the API server's own.
func New(a authz.Authorizer, resolve Resolve) *Plugin { return &Plugin{a, resolve} }

// Name implements admission.Plugin.
func (*Plugin) Name() string { return Name }

// Handles implements admission.Plugin.
func (*Plugin) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

// Validate implements admission.Validator. Pods' status is left out: what changes owners there is ignored anyway.
func (p *Plugin) Validate(ctx context.Context, r *admission.Request) error {
	if r.Resource.GroupResource() == (schema.GroupResource{Resource: "pods"}) && r.Subresource == "status" {
		return nil
	}
	refs, old, ok := owners(r)
	if !ok || equality.Semantic.DeepEqual(refs, old) || len(refs)+len(old) == 0 {
		return nil
	}
	// Who creates an object could as well never create it.
	if r.Operation != admission.Create {
		a := authz.Attributes{
			User: r.User, Verb: "delete", Namespace: r.Namespace, Group: r.Resource.Group, Version: r.Resource.Version,
			Resource: r.Resource.Resource, Subresource: r.Subresource, Name: r.Name, ResourceRequest: true,
		}
		decision, err := p.authz.Authorize(ctx, a)
		if decision.Verdict != authz.Allow {
			return admission.Forbidden(r, "cannot set an ownerRef on a resource you can't delete: %v, %v", decision.Why(a), err)
		}
	}
	return p.blocking(ctx, r, newlyBlocking(refs, old))
}

// blocking checks references that newly block their owner's deletion.
func (p *Plugin) blocking(ctx context.Context, r *admission.Request, refs []metav1.OwnerReference) error {
	if len(refs) == 0 {
		return nil
	}
	anything := authz.Attributes{
		User: r.User, Verb: "update", Group: "*", Version: "*", Resource: "*", Subresource: "finalizers", Name: "*", ResourceRequest: true,
	}
	if decision, _ := p.authz.Authorize(ctx, anything); decision.Verdict == authz.Allow {
		return nil
	}
	for _, ref := range refs {
		served, err := p.served(ref)
		if err != nil {
			return admission.Forbidden(r, "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion %s Kind %s: %w",
				ref.APIVersion, ref.Kind, err)
		}
		for _, s := range served {
			if err := p.mayBlock(ctx, r, ref, s); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *Plugin) served(ref metav1.OwnerReference) ([]Served, error) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return nil, err
	}
	return p.resolve(gv.WithKind(ref.Kind))
}

func (p *Plugin) mayBlock(ctx context.Context, r *admission.Request, ref metav1.OwnerReference, s Served) error {
	a := authz.Attributes{
		User: r.User, Verb: "update", Group: s.Group, Version: s.Version, Resource: s.Resource, Subresource: "finalizers",
		Name: ref.Name, ResourceRequest: true,
	}
	if s.Namespaced {
		a.Namespace = r.Namespace // an owner is in the namespace of what it owns
	}
	decision, err := p.authz.Authorize(ctx, a)
	if decision.Verdict == authz.Allow {
		return nil
	}
	return admission.Forbidden(r, "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: %v, %v", decision.Why(a), err)
}

// owners returns the owner references of the new and the old object; false if one has no metadata.
func owners(r *admission.Request) (refs, old []metav1.OwnerReference, ok bool) {
	of := func(obj runtime.Object) []metav1.OwnerReference {
		m, is := obj.(metav1.Object)
		if !is {
			ok = false
			return nil
		}
		return m.GetOwnerReferences()
	}
	ok = true
	refs = of(r.Object)
	if r.OldObject != nil {
		old = of(r.OldObject)
	}
	return refs, old, ok
}

// newlyBlocking returns the references that block their owner's deletion and did not before.
func newlyBlocking(refs, old []metav1.OwnerReference) []metav1.OwnerReference {
	blocks := func(ref metav1.OwnerReference) bool { return ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion }
	blocked := map[types.UID]bool{}
	for _, ref := range old {
		blocked[ref.UID] = blocks(ref)
	}
	var all []metav1.OwnerReference
	for _, ref := range refs {
		if blocks(ref) && !blocked[ref.UID] {
			all = append(all, ref)
		}
	}
	return all
}
