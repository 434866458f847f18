package apiserver

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/apiserver/audit"
	"github.com/keelson-dev/keelson/apiserver/internal/fair"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/codec"
)

// Options of a Server. The zero value refuses everything: who may do what is the user's to say.
type Options struct {
	// Authenticator tells who makes a request. nil takes everyone for system:anonymous.
	Authenticator authn.Authenticator
	// Authorizer decides whether they may. nil refuses.
	Authorizer authz.Authorizer
	// Admission changes and judges writes, in order. nil admits everything.
	Admission admission.Chain
	// Version is what /version tells; FillVersion completes it.
	Version version.Info
	// MaxBody bounds request bodies, in bytes; 0 is 3 MiB.
	MaxBody int64
	// Audit records requests. nil records none.
	Audit *audit.Log
	// Observer sees what passes, for metrics. nil is nobody.
	Observer Observer
	// RequestTimeout ends requests that are not long-running (watches and the like); 0 is one
	// minute. Clients may ask for less by the parameter "timeout".
	RequestTimeout time.Duration
	// MaxInFlight and MaxMutatingInFlight bound how many requests that read or write are served
	// at once; 0 is 400 and 200, below 0 is no limit. Others are answered with 429. No user gets
	// more than half of what is left to take; service accounts share by namespace, and who has not
	// authenticated, where there is an Authenticator, has a small share with all others of that kind.
	// Nodes, kube-controller-manager, kube-scheduler and the service accounts of kube-system have seats
	// that nobody else can take, as the priority levels of upstream's default API Priority and Fairness
	// do. Long-running requests and those of this process (Transport) do not count; system:masters and
	// probes are always let in.
	MaxInFlight, MaxMutatingInFlight int
	// Patience bounds how long clients may take to send and to read.
	Patience Patience
	// Paths are served beside the API, after authentication and authorization: by exact path, or
	// by prefix when the pattern ends in a slash. The API's own paths cannot be taken.
	Paths map[string]http.Handler
	// Connector leads to containers and ports: logs, exec, attach, port-forward and proxy. nil says that
	// there is no way.
	Connector Connector
	Logger    *slog.Logger
}

// Server is an API server as an http.Handler. It starts nothing and is safe for concurrent use.
type Server struct {
	registry  *registry.Registry
	authn     authn.Authenticator
	authz     authz.Authorizer
	admission admission.Chain
	version   version.Info
	maxBody   int64
	log       *slog.Logger
	endpoints map[schema.GroupVersionResource]*endpoint
	discovery *discovery
	paths     *paths
	scheme    *runtime.Scheme // the types of all kinds that are served
	owners    owners
	// footprints bound what a body is decoded into.
	footprints codec.Footprints
	connector  Connector
	chain
}

// chain is what requests pass on their way in, besides authenticator and authorizer.
type chain struct {
	audit              *audit.Log
	observer           Observer
	maxTime            time.Duration
	patience           Patience
	readOnly, mutating *fair.Seats
	strangers          bool // those who have not authenticated can be told from others
	impersonators      impersonators
}

// New returns a server of the registry's kinds.
func New(r *registry.Registry, o Options) *Server {
	s := &Server{
		registry: r, authn: o.Authenticator, authz: o.Authorizer, admission: o.Admission,
		version: FillVersion(o.Version), maxBody: o.MaxBody, log: o.Logger, connector: o.Connector,
		endpoints: map[schema.GroupVersionResource]*endpoint{},
	}
	if s.authn == nil {
		s.authn = authn.Func(func(*http.Request) (*authn.Identity, error) {
			return &authn.Identity{Name: authn.Anonymous, Groups: []string{authn.GroupUnauthenticated}}, nil
		})
	}
	if s.authz == nil {
		s.authz = authz.Func(func(context.Context, authz.Attributes) (authz.Decision, error) {
			return authz.Decision{Reason: "no authorizer is configured"}, nil
		})
	}
	if s.maxBody <= 0 {
		s.maxBody = 3 << 20
	}
	s.chain = chain{
		audit: o.Audit, observer: o.Observer, maxTime: cmp.Or(max(o.RequestTimeout, 0), requestTimeout), patience: o.Patience.orDefault(),
		readOnly: fair.New(limitOf(o.MaxInFlight, maxReadOnly)), mutating: fair.New(limitOf(o.MaxMutatingInFlight, maxMutating)),
		strangers: o.Authenticator != nil,
	}
	s.impersonators.modes = modes()
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	var kinds []registry.Kind
	for _, res := range r.Resources() {
		kinds = append(kinds, res.Kind)
		s.add(&endpoint{Resource: res, server: s, names: res.Names, gv: res.GroupVersion})
		for i := range res.Also {
			v := &res.Also[i]
			s.add(&endpoint{Resource: res, server: s, version: v, names: v.Names, gv: v.GroupVersion})
		}
	}
	s.scheme = registry.Scheme(kinds)
	s.discovery = discover(r, s.endpoints)
	s.paths = newPaths(o.Paths, s.discovery)
	return s
}

func (s *Server) add(e *endpoint) { s.endpoints[e.gv.WithResource(e.names.Plural)] = e }

func (s *Server) authorize(ctx context.Context, a authz.Attributes) error {
	decision, err := s.authz.Authorize(ctx, a)
	if decision.Verdict == authz.Allow {
		return nil
	}
	if err != nil {
		s.log.Info("authorization failed", "user", a.User.Name, "error", err)
		return apierrors.NewInternalError(err)
	}
	return forbidden(a, decision.Reason)
}

// mayCreate authorizes an update that turns out to create.
func (s *Server) mayCreate(ctx context.Context, q Request) error {
	q.Verb = "create"
	return s.authorize(ctx, attributes(authn.FromContext(ctx), &q))
}

// admit runs the whole chain over a request whose object is not what is stored.
func (s *Server) admit(ctx context.Context, q *admission.Request) error {
	if err := s.admission.Admit(ctx, q); err != nil {
		return err
	}
	return s.admission.Validate(ctx, q)
}

func (s *Server) route(w http.ResponseWriter, r *http.Request, q Request) {
	if strings.HasPrefix(r.URL.Path, "//") {
		http.NotFound(w, r) // the policies have read it leniently, as upstream's
		return
	}
	if !q.IsResource {
		if !s.paths.serve(w, r) {
			s.discovery.serve(w, r, s.version)
		}
		return
	}
	e, ok := s.endpoints[q.gvr()]
	if !ok || !e.Namespaced && q.Namespace != "" && q.Resource != "namespaces" || q.Verb == "proxy" {
		s.discovery.notFound(w, r, q.Group)
		return
	}
	if problem := badName(q); problem != "" {
		writeError(w, r, apierrors.NewBadRequest(problem))
		return
	}
	c := &call{endpoint: e, q: q, w: w, r: r, warnings: &warnings{}}
	handle, found := c.handler()
	_, connects := c.connects()
	switch {
	case !found:
		s.discovery.notFound(w, r, q.Group)
	case connects && handle != nil:
		handle(r.Context())
	case handle == nil || r.Method == http.MethodHead || q.Verb == "watch" && r.Method != http.MethodGet:
		c.fail(noRoute(http.StatusMethodNotAllowed, "405: Method Not Allowed"))
	default:
		if err := c.acceptable(); err != nil {
			c.fail(err)
			return
		}
		if c.Warning != "" {
			c.warn(c.Warning)
		}
		handle(r.Context())
	}
}

// badName tells what is wrong with the name in the path: it can be no key.
func badName(q Request) string {
	if q.Name == "" || q.Selected {
		return ""
	}
	if problems := content.IsPathSegmentName(q.Name); len(problems) > 0 {
		return fmt.Sprintf("Name parameter invalid: %q: %s", q.Name, strings.Join(problems, ";"))
	}
	return ""
}

// acceptable refuses what the client could not read, before anything is done.
func (c *call) acceptable() error {
	if !c.protobuf() {
		return nil // upstream's custom resources only negotiate, for their metadata is there in protobuf
	}
	types := offered()
	if c.r.Method == http.MethodGet && (c.q.Verb == "list" || c.q.Verb == "watch") {
		types = append(types, streamed()...)
	}
	return acceptable(c.r, types)
}

// handler finds what serves the request. found is false when there is no such path, handle is
// nil when the path does not take the method.
func (c *call) handler() (handle func(context.Context), found bool) {
	if c.q.Subresource != "" {
		return c.subresource()
	}
	if c.q.Name != "" && !c.byField() {
		return c.one()
	}
	return c.collection()
}

// one serves requests about one object.
func (c *call) one() (handle func(context.Context), found bool) {
	if c.Answer != nil || c.Namespaced && c.q.Namespace == "" {
		return nil, false
	}
	switch verb := c.q.Verb; {
	case verb == "get":
		return c.get, true
	case c.Read != nil:
		return nil, true
	}
	switch c.q.Verb {
	case "watch":
		return c.watch, true
	case "update":
		return c.update, true
	case "patch":
		return c.patch, true
	case "delete":
		return c.delete, true
	}
	return nil, true
}

// collection serves requests about all objects, of one namespace or of all.
func (c *call) collection() (handle func(context.Context), found bool) {
	everywhere := c.Namespaced && c.q.Namespace == ""
	switch verb := c.q.Verb; {
	case c.Answer != nil && everywhere:
		return nil, false
	case c.Read != nil && verb != "list":
		return nil, true
	case verb == "create" && !everywhere:
		return c.create, true
	case c.Answer != nil:
		return nil, true
	case verb == "list":
		return c.list, true
	case verb == "watch":
		return c.watch, true
	case verb == "deletecollection" && !everywhere && !c.Rules.Deletion.Singly:
		return c.deleteCollection, true
	}
	return nil, true
}

// byField tells whether the request's name comes from a field selector, not from the path.
func (c *call) byField() bool {
	return c.q.Verb == "list" || c.q.Verb == "deletecollection" || c.q.Verb == "watch" && c.q.Selected
}
