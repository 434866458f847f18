package apiserver

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"github.com/keelson-dev/keelson/registry/status"
)

// router finds what serves a request that has passed the chain: an operation of an endpoint, a discovery document, or one
// of Options.Paths.
type router struct {
	backend   *backend
	paths     *paths
	version   version.Info
	delegates Delegates // nil: there are none
	newest    atomic.Pointer[discovery]
}

func newRouter(b *backend, o Options) *router {
	return &router{backend: b, paths: newPaths(o.Paths), version: FillVersion(o.Version), delegates: o.Delegates}
}

// discovery returns the discovery of what is served now. It is made anew when it is wanted after a change.
func (rt *router) discovery() *discovery {
	now, elsewhere := rt.backend.catalog.served(), rt.delegated()
	ending := now.ending()
	if d := rt.newest.Load(); d != nil && d.of == now && d.elsewhere == elsewhere && slices.Equal(d.ending, ending) {
		return d
	}
	d := discover(now, elsewhere)
	d.ending = ending
	rt.newest.Store(d)
	return d
}

// serve answers a request.
func (rt *router) serve(x *exchange, r *http.Request) {
	q := &x.request
	if strings.HasPrefix(r.URL.Path, "//") {
		http.NotFound(x, r) // authorizers have read it leniently, as upstream's
		return
	}
	if h := rt.delegate(r.URL.Path); h != nil {
		h.ServeHTTP(x, r)
		return
	}
	if !q.IsResource {
		if !rt.paths.serve(x, r, rt.discovery) {
			rt.discovery().serve(x, r, rt.version)
		}
		return
	}
	e, ok := rt.backend.catalog.served().endpoints[q.gvr()]
	if !ok || !e.resource.Namespaced && q.Namespace != "" && q.Resource != "namespaces" || q.Verb == "proxy" {
		rt.discovery().notFound(x, r, q.Group)
		return
	}
	if problem := badName(q); problem != "" {
		writeError(x, r, apierrors.NewBadRequest(problem))
		return
	}
	c := &call{backend: rt.backend, endpoint: e, resource: e.resource, request: *q, exchange: x, r: r}
	op, found := e.operation(q, r.Method)
	_, connects := e.connects(q)
	switch {
	case !found && q.Subresource != "" && e.resource.Decode != nil:
		// Upstream looks for the subresources of custom kinds only after it has found their path.
		c.warn(e.resource.Warning)
		writeError(x, r, apierrors.NewNotFound(q.gvr().GroupResource(), q.Name))
		return
	case !found:
		rt.discovery().notFound(x, r, q.Group)
		return
	case connects && op != nil:
	case op == nil || r.Method == http.MethodHead || q.Verb == "watch" && r.Method != http.MethodGet:
		writeError(x, r, status.NoRoute(http.StatusMethodNotAllowed, "405: Method Not Allowed"))
		return
	default:
		if err := checkAccept(e, q, r); err != nil {
			writeError(x, r, err)
			return
		}
	}
	if !connects {
		c.warn(e.resource.Warning)
		rt.backend.decoder.bodyToJSON(r)
	}
	op(c, r.Context())
	rt.again(c)
}

// again serves a request whose kind has been replaced meanwhile. Nothing has been written or answered yet: it is served by what
// is defined now.
func (rt *router) again(c *call) {
	q := &c.request
	for c.replaced {
		e, ok := rt.backend.catalog.served().endpoints[q.gvr()]
		if !ok {
			rt.discovery().notFound(c.exchange, c.r, q.Group)
			return
		}
		op, found := e.operation(q, c.r.Method)
		if !found || op == nil {
			rt.discovery().notFound(c.exchange, c.r, q.Group)
			return
		}
		c.endpoint, c.resource, c.replaced = e, e.resource, false
		c.attempts++
		op(c, c.r.Context())
	}
}

// name is the endpoint that a request is for, if there is such, as in Observation.Endpoint.
func (rt *router) name(q *Request, method string) string {
	if !q.IsResource {
		if _, ok := rt.paths.exact[q.Path]; ok {
			return q.Path
		}
		return ""
	}
	if e, ok := rt.backend.catalog.served().endpoints[q.gvr()]; ok {
		if _, found := e.operation(q, method); found {
			return ResourceEndpoint
		}
	}
	return ""
}

// badName says what is wrong with the name in the path, if it cannot be an object's.
func badName(q *Request) string {
	if q.Name == "" || q.Selected {
		return ""
	}
	if problems := content.IsPathSegmentName(q.Name); len(problems) > 0 {
		return fmt.Sprintf("Name parameter invalid: %q: %s", q.Name, strings.Join(problems, ";"))
	}
	return ""
}

// checkAccept refuses what the client could not read, before anything is done.
func checkAccept(e *endpoint, q *Request, r *http.Request) error {
	if !e.hasProtobuf() {
		return nil // upstream's custom resources only negotiate, since their metadata exists in protobuf
	}
	types := offered(r)
	if r.Method == http.MethodGet && (q.Verb == "list" || q.Verb == "watch") {
		types = append(types, streamed(r)...)
	}
	return acceptable(r, types)
}

// delegate returns what serves a path in place of the server, or nil.
func (rt *router) delegate(path string) http.Handler {
	if rt.delegates == nil {
		return nil
	}
	prefix, rest, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	var gv schema.GroupVersion
	switch prefix {
	case "apis":
		gv.Group, rest, _ = strings.Cut(rest, "/")
		if gv.Group == "" {
			return nil
		}
	case "api":
	default:
		return nil
	}
	if gv.Version, _, _ = strings.Cut(rest, "/"); gv.Version == "" {
		return nil
	}
	return rt.delegates.Delegate(gv)
}

// delegated returns what discovery says about the delegates.
func (rt *router) delegated() *Delegated {
	if rt.delegates == nil {
		return nil
	}
	return rt.delegates.Delegated()
}

// waits reports whether a request may create an object that is pending.
func (rt *router) waits(q *Request) bool {
	return rt.backend.registry.HidesPending() && q.IsResource && q.Subresource == "" &&
		(q.Verb == "create" || q.Verb == "update" || q.Verb == "patch")
}
