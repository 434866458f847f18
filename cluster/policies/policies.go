// Package policies gives a cluster admission policies: the kinds ValidatingAdmissionPolicy and MutatingAdmissionPolicy with
// their bindings, the plugins that act by them, and the controller of their status. A cluster that does not import this package links neither the plugins
// nor CEL.
//
// A policy or binding takes effect with the answer to the request that stored it.
package policies

import (
	"context"
	"errors"
	"sync/atomic"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/policy"
	"github.com/keelson-dev/keelson/admission/policy/cel"
	"github.com/keelson-dev/keelson/admission/policy/typecheck"
	"github.com/keelson-dev/keelson/apiserver/audit"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/internal/served"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/admissionregistration"
)

// Options are the options of policies. The zero value is valid.
type Options struct {
	// Spent, if set, is told what expressions of policies cost; its context is that of the request.
	Spent func(ctx context.Context, c cel.Cost)
}

// Policies are the admission policies of one cluster. Make them with New.
type Policies struct {
	compiler *cel.Compiler
	checker  *typecheck.Compiler
	parts    atomic.Pointer[cluster.ServerParts] // the cluster's, once there is one
}

// New returns the policies of a cluster, whose kinds and admission plugins they provide.
func New(o Options) *Policies {
	p := &Policies{checker: typecheck.NewCompiler()}
	p.compiler = cel.New(cel.Options{Authorizer: authz.Func(p.authorize), Spent: o.Spent})
	return p
}

// authorize asks the cluster's authorizer.
func (p *Policies) authorize(ctx context.Context, a authz.Attributes) (authz.Decision, error) {
	if parts := p.parts.Load(); parts != nil {
		return parts.Authorizer.Authorize(ctx, a)
	}
	return authz.Decision{}, nil
}

// errNoPlugins means that a cluster has the kinds and not the plugins.
var errNoPlugins = errors.New("the cluster does not have the admission plugins of the policies")

// kinds returns those of the cluster.
func (p *Policies) kinds() (served.Kinds, error) {
	parts := p.parts.Load()
	if parts == nil {
		return served.Kinds{}, errNoPlugins
	}
	return served.Kinds{Registry: parts.Registry}, nil
}

// Kinds returns the kinds of policies and bindings, for cluster.Options.Kinds.
func (p *Policies) Kinds() []registry.Kind {
	return admissionregistration.PolicyKinds(admissionregistration.PolicyOptions{Compiler: p.check, Access: p.access()})
}

// Admission returns the plugins, for cluster.Options.Admission: append them to cluster.DefaultAdmission, or use
// cluster.WithStages. They need the kinds.
func (p *Policies) Admission() []cluster.AdmissionStage {
	return []cluster.AdmissionStage{
		{Name: policy.MutatingName, New: func(parts cluster.ServerParts) (admission.Plugin, error) {
			return plugin(p, parts, "mutatingadmissionpolicies", "mutatingadmissionpolicybindings", p.compiler.Mutating, policy.NewMutating)
		}},
		{Name: policy.ValidatingName, New: func(parts cluster.ServerParts) (admission.Plugin, error) {
			return plugin(p, parts, "validatingadmissionpolicies", "validatingadmissionpolicybindings", p.compiler.Validating, policy.NewValidating)
		}},
	}
}

// constructor makes a plugin.
type constructor[P, B, E any, A admission.Plugin] func(policy.Objects[P], policy.Objects[B], policy.Namespaces, func(P) E, policy.Options) A

// plugin makes a plugin that reads the policies of one kind.
//
//nolint:revive // what tells the two kinds apart
func plugin[P, B registry.Object, E any, A admission.Plugin](p *Policies, parts cluster.ServerParts, policies, bindings string,
	compile func(P) E, construct constructor[P, B, E, A],
) (admission.Plugin, error) {
	p.parts.Store(&parts)
	ofPolicies, err := registry.NewLive[P](parts.Registry, schema.GroupResource{Group: registrationv1.GroupName, Resource: policies})
	if err != nil {
		return nil, err
	}
	ofBindings, err := registry.NewLive[B](parts.Registry, schema.GroupResource{Group: registrationv1.GroupName, Resource: bindings})
	if err != nil {
		return nil, err
	}
	namespaces, err := registry.NewLive[*corev1.Namespace](parts.Registry, schema.GroupResource{Resource: "namespaces"})
	if err != nil {
		return nil, err
	}
	kinds := served.Kinds{Registry: parts.Registry}
	schemas := &schemas{kinds: kinds}
	return construct(ofPolicies, ofBindings, namespaces, compile, policy.Options{
		Versions: kinds.Versions, Params: params(kinds), Merge: schemas.merge, Default: kinds.SetDefaults,
		Warn: registry.Warn, Annotate: annotate, Logger: parts.Logger,
	}), nil
}

func annotate(ctx context.Context, key, value string) { audit.Annotate(ctx, key, value) }
