package apiserver

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
)

// Observer is told what passes through a Server. Package apiserver/metrics counts it.
type Observer interface {
	// Observe is called at moments of a request, on its way: it does not block, and neither
	// changes nor keeps the observation. Calls about one request follow each other, but for
	// TimedOut, which has an observation of its own.
	Observe(m Moment, o *Observation)
}

// ObserverFunc is an Observer made of a function.
type ObserverFunc func(m Moment, o *Observation)

// Observe calls f.
func (f ObserverFunc) Observe(m Moment, o *Observation) { f(m, o) }

// Moment is a point in the life of a request.
type Moment int

const (
	// Began says that the request was let in, past authentication and limits.
	Began Moment = iota
	// Sent says that a long-running request wrote Observation.Chunk bytes of its stream; of a watch this
	// is one event.
	Sent
	// TimedOut says that the client was told that the request took too long. Only what is known from its
	// beginning is set in the observation; Ended follows when the handler returns.
	TimedOut
	// Ended says that the request's handler returned, or the chain answered.
	Ended
)

// Observation is what is known of a request at a moment.
type Observation struct {
	// Method, URL and ContentType are the request's own, Request is how they are read.
	Method      string
	URL         *url.URL
	ContentType string
	Request     *Request
	LongRunning bool
	// Endpoint tells whether the server knows what the URL asks for, so that what stands there
	// is one of few values: a resource, or the path of Options.Paths that is named here.
	Endpoint string
	// Began was said.
	Began bool
	// Rejected because too many requests were in flight.
	Rejected bool
	// Late: the handler returned after the client had been told that the request timed out.
	Late bool
	// Panicked: the handler panicked; Aborted: it gave up, with http.ErrAbortHandler.
	Panicked, Aborted bool

	Code   int           // of the response as the client got it; 0 if that was broken off before any
	Size   int64         // of the response, in bytes
	Body   int64         // of the request, in bytes, as far as it was read
	Chunk  int           // at Sent
	Took   time.Duration // from the first to the last
	Access Access
}

// Access is how the request came past the policies. Results are upstream's labels, empty for
// what was not asked.
type Access struct {
	User               *authn.Identity // who authenticated, before impersonation
	Authentication     string          // success, failure, error
	AuthenticationTook time.Duration
	Impersonation      string // allowed, denied
	ImpersonationMode  string // of one that is allowed: legacy, user-info, serviceaccount, arbitrary-node, associated-node
	ImpersonationTook  time.Duration
	Authorization      string // allowed, denied, no-opinion, error
	AuthorizationTook  time.Duration
}

// ResourceEndpoint is Observation.Endpoint of a resource that is served.
const ResourceEndpoint = "resource"

// now is the time, if anybody wants to know it.
func (x *exchange) now() time.Time {
	if x.seen == nil {
		return time.Time{}
	}
	return time.Now()
}

func (x *exchange) sawAuthentication(id *authn.Identity, err error, began time.Time) {
	if x.seen == nil {
		return
	}
	a := &x.seen.Access
	a.User, a.AuthenticationTook, a.Authentication = id, time.Since(began), "success"
	switch {
	case errors.Is(err, authn.ErrNoCredentials):
		a.Authentication = "failure"
	case err != nil:
		a.Authentication = "error"
	}
}

func (x *exchange) sawImpersonation(mode string, err error, began time.Time) {
	if x.seen == nil {
		return
	}
	a := &x.seen.Access
	a.ImpersonationTook, a.Impersonation, a.ImpersonationMode = time.Since(began), "allowed", mode
	if err != nil {
		a.Impersonation = "denied"
	}
}

func (x *exchange) sawAuthorization(v authz.Verdict, err error, began time.Time) {
	if x.seen == nil {
		return
	}
	a := &x.seen.Access
	a.AuthorizationTook = time.Since(began)
	switch {
	case v == authz.Allow:
		a.Authorization = "allowed"
	case err != nil:
		a.Authorization = "error"
	case v == authz.Deny:
		a.Authorization = "denied"
	default:
		a.Authorization = "no-opinion"
	}
}

// observe begins the observation of a request, if somebody observes.
func (x *exchange) observe(r *http.Request) {
	if x.server.observer != nil {
		x.seen = &Observation{
			Method: r.Method, URL: r.URL, ContentType: r.Header.Get("Content-Type"), Request: &x.q, LongRunning: x.long,
		}
	}
}

func (x *exchange) sawBegin(r *http.Request) {
	if x.seen == nil {
		return
	}
	x.seen.Endpoint = x.server.known(&x.q, r)
	x.seen.Began = true
	x.server.observer.Observe(Began, x.seen)
}

func (x *exchange) sawRejection(r *http.Request) {
	if x.seen == nil {
		return
	}
	x.seen.Endpoint = x.server.known(&x.q, r)
	x.seen.Rejected = true
}

func (x *exchange) sawWrite(size int) {
	if x.seen == nil || !x.long || x.code != http.StatusOK {
		return
	}
	x.seen.Chunk = size
	x.server.observer.Observe(Sent, x.seen)
}

// sawTimeout may be said while the request's own goroutine goes on.
func (x *exchange) sawTimeout(r *http.Request) {
	x.server.log.Info("request timed out", "method", r.Method, "path", r.URL.Path, "audit-id", x.shortID())
	if o := x.seen; o != nil {
		x.server.observer.Observe(TimedOut, &Observation{
			Method: o.Method, URL: o.URL, ContentType: o.ContentType, Request: &x.q, Endpoint: x.server.known(&x.q, r),
		})
	}
}

func (x *exchange) sawEnd(panicked any) {
	if x.seen == nil {
		return
	}
	o := x.seen
	o.Aborted = panicked == http.ErrAbortHandler
	o.Panicked = panicked != nil && !o.Aborted
	o.Code, o.Size, o.Took = x.code, x.size, time.Since(x.received)
	o.Late = x.timed != nil && x.timed.isExpired()
	switch {
	case o.Late:
		o.Code = http.StatusGatewayTimeout
	case o.Code == 0 && o.Panicked:
		o.Code = http.StatusInternalServerError
	case o.Code == 0 && !o.Aborted:
		o.Code = http.StatusOK // as net/http answers for a handler that wrote nothing
	}
	x.server.observer.Observe(Ended, o)
}

// known tells what endpoint a request is for, if there is such: Observation.Endpoint.
func (s *Server) known(q *Request, r *http.Request) string {
	if !q.IsResource {
		if _, ok := s.paths.exact[q.Path]; ok {
			return q.Path
		}
		return ""
	}
	if e, ok := s.endpoints[q.gvr()]; ok {
		c := &call{endpoint: e, q: *q, r: r}
		if _, found := c.handler(); found {
			return ResourceEndpoint
		}
	}
	return ""
}

// counted is a request's body of which is known how much was read.
type counted struct {
	io.ReadCloser
	read *int64
}

func (c counted) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	*c.read += int64(n)
	return n, err
}
