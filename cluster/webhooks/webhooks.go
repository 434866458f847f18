// Package webhooks gives a cluster admission webhooks: the kinds MutatingWebhookConfiguration and
// ValidatingWebhookConfiguration, and the plugins that call the webhooks. A cluster that does not import this package links
// neither the plugins nor CEL.
//
// Webhooks are called by URL over TLS, by service at the service's endpoints, or as an http.Handler in the same process,
// without certificate or port. Package admission/webhook/handler makes such a handler of an admission plugin.
package webhooks

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/webhook"
	"github.com/keelson-dev/keelson/admission/webhook/cel"
	"github.com/keelson-dev/keelson/admission/webhook/inprocess"
	"github.com/keelson-dev/keelson/apiserver/audit"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/internal/callers"
	"github.com/keelson-dev/keelson/cluster/internal/served"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/admissionregistration"
)

// Options are the options of webhooks. The zero value is valid.
type Options struct {
	// Handlers finds webhooks in this process; others are called over the network. inprocess.Services makes one.
	Handlers inprocess.Handlers
	// Dial makes connections to other webhooks; nil means net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Wrap, if set, returns what sends requests to them by way of what it is given: tracing.Transport, say.
	Wrap func(http.RoundTripper) http.RoundTripper
}

// Webhooks are the admission webhooks of one cluster. Make them with New.
type Webhooks struct {
	options    Options
	compiler   *cel.Compiler
	authorizer atomic.Pointer[authz.Authorizer] // the cluster's, once there is one
}

// New returns the webhooks of a cluster, whose kinds and admission plugins they provide.
func New(o Options) *Webhooks {
	w := &Webhooks{options: o}
	w.compiler = cel.New(cel.Options{Authorizer: authz.Func(func(ctx context.Context, a authz.Attributes) (authz.Decision, error) {
		if z := w.authorizer.Load(); z != nil {
			return (*z).Authorize(ctx, a)
		}
		return authz.Decision{}, nil
	})})
	return w
}

// Kinds returns the kinds of the configurations, for cluster.Options.Kinds.
func (w *Webhooks) Kinds() []registry.Kind {
	return admissionregistration.Kinds(admissionregistration.Options{Compile: w.compiler.Check})
}

// Admission returns the plugins, for cluster.Options.Admission: append them to cluster.DefaultAdmission, or use
// cluster.WithStages. They need the kinds.
func (w *Webhooks) Admission() []cluster.AdmissionStage {
	return []cluster.AdmissionStage{
		{Name: webhook.MutatingName, New: func(p cluster.ServerParts) (admission.Plugin, error) {
			return plugin(w, p, "mutatingwebhookconfigurations", webhook.NewMutating)
		}},
		{Name: webhook.ValidatingName, New: func(p cluster.ServerParts) (admission.Plugin, error) {
			return plugin(w, p, "validatingwebhookconfigurations", webhook.NewValidating)
		}},
	}
}

// plugin makes a plugin that reads the configurations of one kind.
func plugin[T registry.Object, P admission.Plugin](w *Webhooks, p cluster.ServerParts, resource string,
	construct func(webhook.Configurations[T], webhook.Namespaces, webhook.Caller, webhook.Options) P,
) (admission.Plugin, error) {
	w.authorizer.Store(&p.Authorizer)
	configurations, err := registry.NewLive[T](p.Registry, schema.GroupResource{Group: registrationv1.GroupName, Resource: resource})
	if err != nil {
		return nil, err
	}
	namespaces, err := registry.NewLive[*corev1.Namespace](p.Registry, schema.GroupResource{Resource: "namespaces"})
	if err != nil {
		return nil, err
	}
	caller, err := callers.New(p.Registry, callers.Options{Handlers: w.options.Handlers, Dial: w.options.Dial, Wrap: w.options.Wrap})
	if err != nil {
		return nil, err
	}
	kinds := served.Kinds{Registry: p.Registry}
	return construct(configurations, namespaces, caller, webhook.Options{
		Versions: kinds.Versions, Default: kinds.SetDefaults, Compile: w.compiler.Compile, Warn: registry.Warn, Annotate: annotate, Logger: p.Logger,
	}), nil
}

// annotate adds to the audit log. What has parts of objects is only for records that have the request's object.
func annotate(ctx context.Context, a webhook.Annotation) {
	if a.Content && !audit.FromContext(ctx).WantsRequest() {
		return
	}
	audit.Annotate(ctx, a.Key, a.Value)
}
