package policies

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/registry/admissionregistration"
)

var errNobody = errors.New("cannot identify user to authorize read access to paramKind resources")

// access is what the kinds ask about those who write policies.
func (p *Policies) access() *admissionregistration.Access {
	return &admissionregistration.Access{Allowed: p.allowed, Resource: p.resource, ParamKind: p.paramKind}
}

// allowed implements admissionregistration.Access.
func (p *Policies) allowed(ctx context.Context, r admissionregistration.Read) (string, bool, error) {
	user := authn.FromContext(ctx)
	if user == nil {
		return "", false, errNobody
	}
	if slices.Contains(user.Groups, authn.GroupMasters) {
		return shown(user), true, nil
	}
	d, err := p.authorize(ctx, authz.Attributes{
		User: user, Verb: r.Verb, Group: r.Resource.Group, Version: r.Resource.Version, Resource: r.Resource.Resource,
		Namespace: r.Namespace, Name: r.Name, ResourceRequest: true,
	})
	return shown(user), d.Verdict == authz.Allow, err
}

// shown returns a user as upstream's messages show one.
func shown(user *authn.Identity) string {
	extra := maps.Clone(user.Extra)
	if extra == nil {
		extra = map[string][]string{}
	}
	return fmt.Sprintf("&{%s %s %v %v}", user.Name, user.UID, user.Groups, extra)
}

// resource implements admissionregistration.Access.
func (p *Policies) resource(kind schema.GroupVersionKind) (schema.GroupVersionResource, error) {
	kinds, err := p.kinds()
	if err != nil {
		return schema.GroupVersionResource{}, err
	}
	res, ok := kinds.Find(kind)
	if !ok {
		return schema.GroupVersionResource{}, fmt.Errorf("no matches for kind %q in version %q", kind.Kind, kind.GroupVersion())
	}
	return res.GroupVersion.WithResource(res.Plural), nil
}

// paramKind implements admissionregistration.Access.
func (p *Policies) paramKind(ctx context.Context, policies schema.GroupResource, name string) (*registrationv1.ParamKind, error) {
	kinds, err := p.kinds()
	if err != nil {
		return nil, err
	}
	res, ok := kinds.Registry.Resource(policies)
	if !ok {
		return nil, fmt.Errorf("%s are not served", policies)
	}
	item, err := res.Get(ctx, "", name, "")
	if err != nil {
		return nil, err
	}
	switch of := item.Object.(type) {
	case *registrationv1.ValidatingAdmissionPolicy:
		return of.Spec.ParamKind, nil
	case *registrationv1.MutatingAdmissionPolicy:
		return of.Spec.ParamKind, nil
	}
	return nil, fmt.Errorf("%s are no policies", policies)
}
