package customresources

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission/webhook/inprocess"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/internal/callers"
	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/controllers/customresourcedefinition"
	"github.com/keelson-dev/keelson/lifecycle"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/apiextensions"
	"github.com/keelson-dev/keelson/registry/custom/review"
	"github.com/keelson-dev/keelson/registry/direct"
)

// Name is the name of the extension.
const Name = "customresources"

// Options configures the extension. The zero value is ready to use.
type Options struct {
	// Webhooks makes what calls the webhooks that convert between versions; nil is Network. If it returns nil, kinds of
	// several versions whose definitions leave conversion to a webhook are not served, and their status says so.
	Webhooks func(r *registry.Registry) (review.Caller, error)
	// Settle is how long definitions wait for the other servers of the cluster before they are established: 0 for
	// one server, and upstream's 5 s for several.
	Settle time.Duration
}

// Network calls webhooks over TLS, by URL or at the endpoints of a service, except those that handlers finds in this process; it
// may be nil.
func Network(handlers inprocess.Handlers) func(r *registry.Registry) (review.Caller, error) {
	return func(r *registry.Registry) (review.Caller, error) {
		caller, err := callers.New(r, callers.Options{Handlers: handlers})
		if err != nil {
			return nil, err
		}
		return review.CallerFunc(func(ctx context.Context, to *apiextensionsv1.WebhookClientConfig, body []byte) ([]byte, error) {
			return caller.Call(ctx, target(to), body)
		}), nil
	}
}

// target describes a webhook as those of admission are described.
func target(to *apiextensionsv1.WebhookClientConfig) *registrationv1.WebhookClientConfig {
	out := &registrationv1.WebhookClientConfig{URL: to.URL, CABundle: to.CABundle}
	if s := to.Service; s != nil {
		out.Service = &registrationv1.ServiceReference{Namespace: s.Namespace, Name: s.Name, Path: s.Path, Port: s.Port}
	}
	return out
}

// Extension returns the extension.
func Extension(o Options) cluster.Extension {
	return cluster.Extension{
		Name: Name, Kinds: apiextensions.Kinds(),
		New: func(p *cluster.ExtensionParts) (cluster.Extended, error) { return newExtended(p, o) },
	}
}

func definitions() schema.GroupVersionResource {
	return apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")
}

// extended is the extension of one cluster.
type extended struct {
	lifecycle.Runnable
	registry *registry.Registry
	server   *server
	log      *slog.Logger
}

func newExtended(p *cluster.ExtensionParts, o Options) (*extended, error) {
	cache := component.Informer[*apiextensionsv1.CustomResourceDefinition](p.Informers, definitions())
	if err := p.Informers.Err(); err != nil {
		return nil, err
	}
	if o.Webhooks == nil {
		o.Webhooks = Network(nil)
	}
	caller, err := o.Webhooks(p.Registry)
	if err != nil {
		return nil, err
	}
	s := newServer(p.Registry, p.Kinds, caller)
	// The objects of a deleted definition are deleted past admission, as upstream's server does, and whether or not a
	// version is served.
	objects := direct.New(p.Registry, direct.Options{Identity: p.Identity, Unserved: true})
	c := customresourcedefinition.New(cache, p.Client, objects, s, customresourcedefinition.Options{Settle: o.Settle})
	return &extended{
		Runnable: (&component.Parts{Pace: p.Pace, Logger: p.Logger}).Loop(c), registry: p.Registry, server: s, log: p.Logger,
	}, nil
}

// Prepare serves the kinds whose definitions the store has. What cannot be served does not keep the cluster from
// starting; the controller says so in the definition's status.
func (e *extended) Prepare(ctx context.Context) error {
	all, err := e.registry.Access().List(ctx, definitions().GroupResource(), "")
	if err != nil {
		return err
	}
	for _, obj := range all {
		crd := obj.(*apiextensionsv1.CustomResourceDefinition)
		if !customresourcedefinition.Servable(crd) {
			continue
		}
		switch err := e.server.Serve(ctx, crd); {
		case errors.Is(err, customresourcedefinition.ErrUnservable), errors.Is(err, customresourcedefinition.ErrBuiltIn):
			e.log.Warn("a custom kind is not served", "definition", crd.Name, "error", err)
		case err != nil:
			return fmt.Errorf("serve %s: %w", crd.Name, err)
		}
	}
	return nil
}
