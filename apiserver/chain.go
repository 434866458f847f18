package apiserver

import (
	"context"
	"net/http"
	"time"

	"github.com/keelson-dev/keelson/authn"
)

// Server is an API server as an http.Handler: a chain of filters before the router. It starts nothing and is safe for
// concurrent use.
type Server struct {
	chain chain
}

// chain is what every request passes before it is routed: one filter per file filter_*.go, each with what it needs. The
// order, which is upstream's, is that of the calls in ServeHTTP, serveUntilStream and filter.
type chain struct {
	cbor           cborFilter
	panics         panicFilter
	observation    observationFilter
	timeout        timeoutFilter
	accessLog      accessLogFilter
	audit          auditFilter
	authentication authenticationFilter
	tracing        tracingFilter
	impersonation  impersonationFilter
	flowControl    flowControlFilter
	body           bodyFilter
	authorization  authorizationFilter
	router         *router
}

// ServeHTTP runs a request through the chain and answers it.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{w: w, received: time.Now(), method: r.Method}
	defer s.chain.panics.answer(x)
	if ctx := s.chain.serveUntilStream(x, r); ctx != nil {
		s.chain.serveStream(ctx, x)
	}
}

// serveUntilStream serves a request, or the part of it that comes before a stream: then it returns the stream's context.
// It is not inlined, so that a watch that waits does not keep its frame.
//
//go:noinline
func (c *chain) serveUntilStream(x *exchange, r *http.Request) (streaming context.Context) {
	r = c.cbor.admit(r)
	filterRequestID(x, r)
	if !filterRequestInfo(x, r) {
		return nil
	}
	c.observation.open(x, r)
	filterCacheControl(x)
	if !x.longRunning {
		c.timeout.serve(x, r)
		return nil
	}
	own := r.WithContext(r.Context())
	c.filter(x, own)
	if x.stream == nil {
		return nil
	}
	return own.Context()
}

// filter runs the request, which is its to change, through the filters that depend on who makes it, and routes it.
func (c *chain) filter(x *exchange, r *http.Request) {
	defer c.finish(x, r)
	c.audit.open(x, r)
	if !c.timeout.check(x, r) || !c.authentication.identify(x, r) || !c.audit.receive(x, r) {
		return
	}
	ctx := c.tracing.open(authn.NewContext(r.Context(), x.user), x, r)
	acting, ok := c.impersonation.impersonate(ctx, x, r)
	if !ok {
		return
	}
	ticket, ok := c.flowControl.enter(x, r)
	c.observation.admit(x, ok)
	if !ok {
		return
	}
	leave := ticket.Done
	if ticket.Release != nil && c.router.waits(&x.request) {
		acting, leave = withSeat(acting, ticket)
	}
	defer leave()
	*r = *r.WithContext(acting)
	c.body.bound(x, r)
	if c.authorization.authorize(x, r) {
		c.router.serve(x, r)
	}
}

// serveStream serves what is left of the request. Its frame, and those of its callers, last as long as a watch: they are
// kept small.
func (c *chain) serveStream(ctx context.Context, x *exchange) {
	defer c.finish(x, nil)
	x.stream.serve(ctx)
}

// finish reports a request that has been served; it is deferred. r is nil at the end of a stream.
func (c *chain) finish(x *exchange, r *http.Request) {
	p := recover()
	if r != nil {
		c.accessLog.open(x, r)
		if p == nil && x.stream != nil {
			return // not yet
		}
	}
	x.audit.finish(x, p)
	x.observed.end(x, p)
	if x.traced != nil {
		x.traced(x.answered(p))
	}
	if x.logAccess != nil {
		x.logAccess()
	}
	if p != nil {
		panic(p)
	}
}
