// Package callers makes what calls the webhooks of a cluster: over TLS, by URL or at the endpoints of a service, or in process.
package callers

import (
	"context"
	"net"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission/webhook"
	"github.com/keelson-dev/keelson/admission/webhook/inprocess"
	"github.com/keelson-dev/keelson/admission/webhook/remote"
	"github.com/keelson-dev/keelson/registry"
)

// Options are the options of New. The zero value is valid.
type Options struct {
	// Handlers finds webhooks in this process; nil finds none.
	Handlers inprocess.Handlers
	// Dial makes connections; nil means net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Wrap wraps what sends requests; nil does not.
	Wrap func(http.RoundTripper) http.RoundTripper
}

// New returns a caller for the cluster whose services the registry has.
func New(r *registry.Registry, o Options) (webhook.Caller, error) {
	resolver, err := Resolver(r)
	if err != nil {
		return nil, err
	}
	over := remote.New(remote.Options{Resolver: resolver, Dial: o.Dial, Wrap: o.Wrap})
	if o.Handlers == nil {
		return over, nil
	}
	return inprocess.New(o.Handlers, inprocess.Options{Else: over}), nil
}

// Resolver resolves the services that the registry has to their endpoints.
func Resolver(r *registry.Registry) (remote.Resolver, error) {
	services, err := registry.NewLive[*corev1.Service](r, schema.GroupResource{Resource: "services"})
	if err != nil {
		return nil, err
	}
	slices, err := registry.NewLive[*discoveryv1.EndpointSlice](r, schema.GroupResource{Group: discoveryv1.GroupName, Resource: "endpointslices"})
	if err != nil {
		return nil, err
	}
	return remote.Endpoints(services, slices), nil
}
