package aggregator

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/keelson-dev/keelson/apiserver"
)

// Services are the APIServices. Implementations are safe for concurrent use; their objects are shared and not changed.
type Services interface {
	// Get returns the APIService of that name; its namespace is empty.
	Get(namespace, name string) (*apiregistrationv1.APIService, bool)
}

// Resolver finds out where services are.
type Resolver interface {
	// Resolve returns the address, host and port, at which a service's port can be reached now.
	Resolve(ctx context.Context, namespace, name string, port int32) (string, error)
}

// Options of an Aggregator. The zero value is valid.
type Options struct {
	// Certificate returns the client certificate that other servers know this one by; nil shows none.
	Certificate func() (*tls.Certificate, error)
	// Local finds the server of a service in this process; nil, or a nil result, means that it is reached over TLS. It is
	// not called after its request's context has ended, when it must return.
	Local func(namespace, name string) http.RoundTripper
	// Dial makes connections; nil means net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// MaxAnswer is the maximum size of a discovery or index document in bytes; 0 means 8 MiB.
	MaxAnswer int64
	// Changed, if set, is called when Delegated returns something else, one call at a time. It must not call another
	// method of the Aggregator.
	Changed func()
	// Logger gets what goes wrong; nil discards.
	Logger *slog.Logger
}

// Aggregator forwards requests to the servers of APIServices. Make one with New.
type Aggregator struct {
	services   Services
	resolver   Resolver
	options    Options
	transports transports

	snapshot atomic.Pointer[apiserver.Delegated]
	mu       sync.Mutex // guards known
	known    map[string]*known
}

var _ apiserver.Delegates = (*Aggregator)(nil)

// New returns an Aggregator.
func New(services Services, resolver Resolver, o Options) *Aggregator {
	if o.MaxAnswer <= 0 {
		o.MaxAnswer = 8 << 20
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Aggregator{
		services: services, resolver: resolver, options: o, known: map[string]*known{},
		transports: transports{dial: o.Dial, certificate: o.Certificate, known: map[identity]*http.Transport{}},
	}
}

// Delegate implements apiserver.Delegates.
func (a *Aggregator) Delegate(gv schema.GroupVersion) http.Handler {
	s, ok := a.services.Get("", gv.Version+"."+gv.Group)
	if !ok || s.Spec.Service == nil {
		return nil
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { a.forward(w, r, s) })
}

// Delegated implements apiserver.Delegates.
func (a *Aggregator) Delegated() *apiserver.Delegated { return a.snapshot.Load() }

// Close closes connections that nothing uses at the moment.
func (a *Aggregator) Close() { a.transports.close() }

// available reports whether requests are forwarded.
func available(s *apiregistrationv1.APIService) bool {
	for _, c := range s.Status.Conditions {
		if c.Type == apiregistrationv1.Available {
			return c.Status == apiregistrationv1.ConditionTrue
		}
	}
	return false
}

// port is the port of the APIService's service.
func port(s *apiregistrationv1.APIService) int32 {
	if p := s.Spec.Service.Port; p != nil {
		return *p
	}
	return 443
}

// local is the server in this process, or nil.
func (a *Aggregator) local(s *apiregistrationv1.APIService) http.RoundTripper {
	if a.options.Local == nil {
		return nil
	}
	return a.options.Local(s.Spec.Service.Namespace, s.Spec.Service.Name)
}

// reach returns a way to the APIService's server, and the server's address.
func (a *Aggregator) reach(ctx context.Context, s *apiregistrationv1.APIService, upgrades bool) (http.RoundTripper, string, error) {
	if t := a.local(s); t != nil {
		return t, s.Spec.Service.Name + "." + s.Spec.Service.Namespace + ".svc", nil
	}
	address, err := a.resolver.Resolve(ctx, s.Spec.Service.Namespace, s.Spec.Service.Name, port(s))
	if err != nil {
		return nil, "", &unreachable{err}
	}
	t, err := a.transports.transport(identity{
		server: s.Spec.Service.Name + "." + s.Spec.Service.Namespace + ".svc", roots: string(s.Spec.CABundle),
		insecure: s.Spec.InsecureSkipTLSVerify, http1: upgrades,
	})
	if err != nil {
		return nil, "", err
	}
	return t, address, nil
}

// unreachable says that a service has no address.
type unreachable struct{ error }

// Unwrap returns why.
func (u *unreachable) Unwrap() error { return u.error }
