package aggregation

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/keelson-dev/keelson/apiserver"
	"github.com/keelson-dev/keelson/apiserver/aggregator"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authn/inprocess"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/internal/callers"
	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/controllers/apiservice"
	"github.com/keelson-dev/keelson/lifecycle"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/apiregistration"
)

// Name is the name of the extension.
const Name = "aggregation"

// Options configures the extension. The zero value is ready to use.
type Options struct {
	// Certificate is the client certificate by which other servers know this one: upstream's front-proxy-client. nil shows
	// none.
	Certificate *tls.Certificate
	// Handlers are servers in this process, by their services, which need neither endpoints nor certificates. They get the
	// user in the headers and, if they are clusters of this module, as their authenticator expects it. They must return
	// when a request's context ends.
	Handlers map[types.NamespacedName]http.Handler
	// Dial makes connections to the other servers; nil means net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Extension returns the extension. Its name is Name.
func Extension(o Options) cluster.Extension {
	return cluster.Extension{
		Name: Name, Kinds: apiregistration.Kinds(),
		New: func(p *cluster.ExtensionParts) (cluster.Extended, error) { return newExtended(p, o) },
	}
}

// extended is the extension of one cluster.
type extended struct {
	*aggregator.Aggregator
	kinds        *cluster.Kinds
	registration *apiservice.Registration
	loops        []lifecycle.Runnable
	local        map[types.NamespacedName]*apiserver.Transport
}

var _ cluster.Delegating = (*extended)(nil)

func newExtended(p *cluster.ExtensionParts, o Options) (*extended, error) {
	gvr := apiregistrationv1.SchemeGroupVersion.WithResource("apiservices")
	services, err := registry.NewLive[*apiregistrationv1.APIService](p.Registry, gvr.GroupResource())
	if err != nil {
		return nil, err
	}
	resolver, err := callers.Resolver(p.Registry)
	if err != nil {
		return nil, err
	}
	in := apiservice.Sources{
		APIServices:    component.Informer[*apiregistrationv1.APIService](p.Informers, gvr),
		Services:       component.Informer[*corev1.Service](p.Informers, corev1.SchemeGroupVersion.WithResource("services")),
		EndpointSlices: component.Informer[*discoveryv1.EndpointSlice](p.Informers, discoveryv1.SchemeGroupVersion.WithResource("endpointslices")),
	}
	if err := p.Informers.Err(); err != nil {
		return nil, err
	}
	e := &extended{kinds: p.Kinds, local: map[types.NamespacedName]*apiserver.Transport{}}
	for at, handler := range o.Handlers {
		e.local[at] = apiserver.NewTransport(handler, attach)
	}
	with := aggregator.Options{Local: e.reach, Dial: o.Dial, Logger: p.Logger, Changed: func() {
		p.Kinds.SetDelegated(resources(e.Delegated()))
	}}
	if o.Certificate != nil {
		with.Certificate = func() (*tls.Certificate, error) { return o.Certificate, nil }
	}
	e.Aggregator = aggregator.New(services, resolver, with)
	e.registration = apiservice.NewRegistration(in.APIServices, p.Client, func() []schema.GroupVersion { return served(p.Registry) })
	parts := &component.Parts{Pace: p.Pace, Logger: p.Logger}
	e.loops = []lifecycle.Runnable{
		parts.Loop(e.registration), parts.Loop(apiservice.NewAvailability(in, p.Client, e.Aggregator)),
		parts.Loop(apiservice.NewDiscovery(in.APIServices, e.Aggregator)), lifecycle.Func(e.follow),
	}
	return e, nil
}

// attach tells the authenticator of a cluster in this process whose request it is.
func attach(ctx context.Context) context.Context {
	if id := authn.FromContext(ctx); id != nil {
		return inprocess.Attach(ctx, id)
	}
	return ctx
}

// reach finds a server in this process.
func (e *extended) reach(namespace, name string) http.RoundTripper {
	if t, ok := e.local[types.NamespacedName{Namespace: namespace, Name: name}]; ok {
		return t
	}
	return nil
}

// served returns the versions that the cluster itself serves.
func served(r *registry.Registry) []schema.GroupVersion {
	var all []schema.GroupVersion
	known := map[schema.GroupVersion]bool{}
	for _, res := range r.Resources() {
		for _, v := range res.Versions() {
			if !known[v.GroupVersion] {
				known[v.GroupVersion] = true
				all = append(all, v.GroupVersion)
			}
		}
	}
	return all
}

// Prepare implements cluster.Extended: nothing has to be there before the cluster is ready.
func (*extended) Prepare(context.Context) error { return nil }

// Run runs the controllers.
func (e *extended) Run(ctx context.Context) error {
	defer func() {
		e.Close()
		for _, t := range e.local {
			t.Close()
		}
	}()
	return lifecycle.Group(e.loops...).Run(ctx)
}

// follow tells the registration of kinds that come and go.
func (e *extended) follow(ctx context.Context) error {
	for {
		changed := e.kinds.Changed()
		e.registration.Changed()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}
