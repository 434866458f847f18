package remote

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	registrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/keelson-dev/keelson/admission/webhook"
	"github.com/keelson-dev/keelson/admission/webhook/internal/post"
)

// Resolver finds out where services are.
type Resolver interface {
	// Resolve returns the address, host and port, at which a service's port can be reached now.
	Resolve(ctx context.Context, namespace, name string, port int32) (string, error)
}

// ResolverFunc adapts a function to Resolver.
type ResolverFunc func(ctx context.Context, namespace, name string, port int32) (string, error)

// Resolve calls f.
func (f ResolverFunc) Resolve(ctx context.Context, namespace, name string, port int32) (string, error) {
	return f(ctx, namespace, name, port)
}

// Options are the options of a Caller. The zero value is valid.
type Options struct {
	// Resolver finds services; nil means that their names, "hook.namespace.svc", can be looked up and dialed.
	Resolver Resolver
	// Dial makes connections; nil means net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Wrap, if set, returns what sends all requests by way of what it is given: to trace them, say (see package
	// keelson/tracing). It is called once.
	Wrap func(http.RoundTripper) http.RoundTripper
	// MaxAnswer is the maximum size of an answer in bytes; 0 means 8 MiB.
	MaxAnswer int64
}

// Caller calls webhooks. Make one with New.
type Caller struct {
	options    Options
	transports transports
	over       http.RoundTripper // onward, wrapped
}

var _ webhook.Caller = (*Caller)(nil)

// New returns a Caller.
func New(o Options) *Caller {
	if o.Resolver == nil {
		o.Resolver = ResolverFunc(func(_ context.Context, namespace, name string, port int32) (string, error) {
			return post.Address(&registrationv1.ServiceReference{Namespace: namespace, Name: name, Port: &port}), nil
		})
	}
	if o.MaxAnswer == 0 {
		o.MaxAnswer = post.DefaultMaxAnswer
	}
	c := &Caller{options: o, transports: transports{dial: o.Dial, known: map[identity]*used{}}, over: onward{}}
	if o.Wrap != nil {
		c.over = o.Wrap(onward{})
	}
	return c
}

// Call implements webhook.Caller.
func (c *Caller) Call(ctx context.Context, to *registrationv1.WebhookClientConfig, review []byte) ([]byte, error) {
	at, err := post.Target(to)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", webhook.ErrClient, err)
	}
	transport, err := c.transports.transport(identityOf(to, at))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", webhook.ErrClient, err)
	}
	var way http.RoundTripper = transport
	if to.Service != nil {
		way = &resolving{next: transport, resolver: c.options.Resolver, service: to.Service}
	}
	return post.Review(context.WithValue(ctx, wayKey{}, way), c.over, at, review, c.options.MaxAnswer)
}

// onward sends each request the way that its context has: what wraps it is the same for all.
type onward struct{}

type wayKey struct{}

func (onward) RoundTrip(r *http.Request) (*http.Response, error) {
	return r.Context().Value(wayKey{}).(http.RoundTripper).RoundTrip(r)
}

// Close closes connections that nothing uses at the moment.
func (c *Caller) Close() { c.transports.close() }

// identityOf returns what connections to a webhook depend on.
func identityOf(to *registrationv1.WebhookClientConfig, at *url.URL) identity {
	is := identity{roots: string(to.CABundle)}
	if to.Service == nil {
		is.http1 = !loopback(at.Hostname())
		return is
	}
	is.server, is.http1 = post.ServerName(to.Service), true
	return is
}

func loopback(host string) bool {
	return strings.EqualFold(host, "localhost") || net.ParseIP(host).IsLoopback()
}

// resolving sends requests for a service to where it is, without changing what the webhook and TLS see as its name.
type resolving struct {
	next     http.RoundTripper
	resolver Resolver
	service  *registrationv1.ServiceReference
}

func (t *resolving) RoundTrip(r *http.Request) (*http.Response, error) {
	address, err := t.resolver.Resolve(r.Context(), t.service.Namespace, t.service.Name, post.Port(t.service))
	if err != nil {
		return nil, err
	}
	out := r.Clone(r.Context())
	out.URL.Host = address // out.Host stays
	return t.next.RoundTrip(out)
}
