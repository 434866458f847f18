package policies

import (
	"context"
	"sync"

	registrationv1 "k8s.io/api/admissionregistration/v1"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission/policy/typecheck"
	"github.com/keelson-dev/keelson/apiserver/openapi"
	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/component/controllermanager"
	"github.com/keelson-dev/keelson/registry"
)

// Components returns the controller that writes into the status of validating policies what is wrong with the types of their
// expressions, for cluster.Options.Components. The policies act without it.
func (p *Policies) Components() []component.Component {
	checker := sync.OnceValues(p.newChecker)
	return []component.Component{controllermanager.ValidatingAdmissionPolicyStatus(
		func(ctx context.Context, policy *registrationv1.ValidatingAdmissionPolicy) ([]registrationv1.ExpressionWarning, error) {
			c, err := checker()
			if err != nil {
				return nil, err
			}
			return c.Check(ctx, policy)
		})}
}

// newChecker returns what compares expressions with the schemas of the cluster's kinds.
func (p *Policies) newChecker() (*typecheck.Checker, error) {
	kinds, err := p.kinds()
	if err != nil {
		return nil, err
	}
	docs := openapi.Follow(kinds.Registry.Kinds, openapi.Options{})
	return typecheck.NewChecker(func() []typecheck.Served { return servedBy(kinds.Registry) }, func(_ context.Context, of schema.GroupVersion) ([]byte, error) {
		data, ok, err := docs.JSON(of)
		if err == nil && !ok {
			err = typecheck.ErrNoSchema
		}
		return data, err
	}, typecheck.Options{}), nil
}

// servedBy returns all kinds in all versions.
func servedBy(r *registry.Registry) []typecheck.Served {
	var all []typecheck.Served
	for _, res := range r.Resources() {
		for _, v := range res.Versions() {
			all = append(all, typecheck.Served{Kind: v.GroupVersion.WithKind(v.Names.Kind), Plural: v.Plural, Singular: v.Singular})
		}
	}
	return all
}
