package apiserver

import (
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
)

// Observer is told of the requests to a Server. Package apiserver/metrics counts them.
type Observer interface {
	// Observe is called at several moments while a request is served. It must not block, and must neither change nor keep
	// the observation. Calls about one request do not overlap, except for TimedOut, which has an observation of its own.
	Observe(m Moment, o *Observation)
}

// ObserverFunc is an Observer made of a function.
type ObserverFunc func(m Moment, o *Observation)

// Observe calls f.
func (f ObserverFunc) Observe(m Moment, o *Observation) { f(m, o) }

// Moment is a point in the life of a request.
type Moment int

const (
	// Began is when the request has passed authentication and the limits of what is in flight.
	Began Moment = iota
	// Sent is when a long-running request has written Observation.Chunk bytes of its stream. In a watch this is one event.
	Sent
	// TimedOut is when the client was told that the request took too long. The observation has only what was known when the
	// request began; Ended follows when the handler returns.
	TimedOut
	// Ended is when the request's handler has returned, or a filter has answered.
	Ended
)

// Observation is what is known of a request at a moment.
type Observation struct {
	Method      string   // of the HTTP request
	URL         *url.URL // of the HTTP request
	ContentType string   // the header of the HTTP request
	Request     *Request // what method and URL ask for
	LongRunning bool     // the request lasts as long as its client wants
	// Endpoint is ResourceEndpoint if the URL is that of a resource that the server has, or the path of Options.Paths that
	// it matches. It is empty for others, whose URLs may have any number of values.
	Endpoint string
	// Began: the moment Began was observed.
	Began bool
	// Rejected: too many requests were in flight.
	Rejected bool
	// Late: the handler returned after the client was told that the request timed out.
	Late bool
	// Panicked: the handler panicked; Aborted: it gave up, with http.ErrAbortHandler.
	Panicked, Aborted bool

	Code   int           // of the response as the client got it; 0 if it was broken off before
	Size   int64         // of the response, in bytes
	Body   int64         // of the request, in bytes that were read
	Chunk  int           // at Sent
	Took   time.Duration // since the request was received
	Access Access        // who makes the request, and whether they may
}

// Access is what authentication, impersonation and authorization said of the request. Results are upstream's metric labels,
// empty for what was not asked.
type Access struct {
	User               *authn.Identity // the authenticated one, before impersonation
	Authentication     string          // success, failure, error
	AuthenticationTook time.Duration   // in the authenticator
	Impersonation      string          // allowed, denied
	ImpersonationMode  string          // if allowed: legacy, user-info, serviceaccount, arbitrary-node, associated-node
	ImpersonationTook  time.Duration   // in all modes that were tried
	Authorization      string          // allowed, denied, no-opinion, error
	AuthorizationTook  time.Duration   // in the authorizer
}

// ResourceEndpoint is Observation.Endpoint of a resource that is served.
const ResourceEndpoint = "resource"

// observation is what an observer is told of one request. The methods of nil do nothing.
type observation struct {
	observer Observer
	request  Observation
}

// now is the time, or zero if nobody observes: it is not free.
func (o *observation) now() time.Time {
	if o == nil {
		return time.Time{}
	}
	return time.Now()
}

func (o *observation) authenticated(id *authn.Identity, err error, began time.Time) {
	if o == nil {
		return
	}
	a := &o.request.Access
	a.User, a.AuthenticationTook, a.Authentication = id, time.Since(began), "success"
	switch {
	case errors.Is(err, authn.ErrNoCredentials):
		a.Authentication = "failure"
	case err != nil:
		a.Authentication = "error"
	}
}

func (o *observation) impersonated(mode string, err error, began time.Time) {
	if o == nil {
		return
	}
	a := &o.request.Access
	a.ImpersonationTook, a.Impersonation, a.ImpersonationMode = time.Since(began), "allowed", mode
	if err != nil {
		a.Impersonation = "denied"
	}
}

func (o *observation) authorized(v authz.Verdict, err error, began time.Time) {
	if o == nil {
		return
	}
	a := &o.request.Access
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

// begin observes that the request was let in.
func (o *observation) begin() {
	o.request.Began = true
	o.observer.Observe(Began, &o.request)
}

// sent observes that a stream wrote so many bytes.
func (o *observation) sent(size int) {
	if o == nil {
		return
	}
	o.request.Chunk = size
	o.observer.Observe(Sent, &o.request)
}

// timedOut observes that the client was told of a timeout. The handler may still be running.
func (o *observation) timedOut(endpoint string) {
	if o == nil {
		return
	}
	r := &o.request
	o.observer.Observe(TimedOut, &Observation{
		Method: r.Method, URL: r.URL, ContentType: r.ContentType, Request: r.Request, Endpoint: endpoint,
	})
}

// end observes that the handler returned, or panicked.
func (o *observation) end(x *exchange, panicked any) {
	if o == nil {
		return
	}
	r := &o.request
	r.Aborted = panicked == http.ErrAbortHandler
	r.Panicked = panicked != nil && !r.Aborted
	r.Code, r.Size, r.Took = x.answered(panicked), x.size, time.Since(x.received)
	r.Late = x.late()
	o.observer.Observe(Ended, r)
}
