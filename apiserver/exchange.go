package apiserver

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"time"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/authz/selector"
)

// exchange is one request on its way through the chain, and the response to it: whoever answers writes to it. The
// filters fill it in.
type exchange struct {
	w           http.ResponseWriter // the connection's; timed, once there is one
	method      string
	received    time.Time
	auditID     [1]string // as the header holds it
	request     Request   // what is asked for
	longRunning bool      // it lasts as long as its client wants
	user        *authn.Identity
	code        int             // of the response, 0 before it has begun
	size        int64           // of the response, in bytes
	timed       *timedWriter    // set for requests that came over a connection and are not long-running
	audit       *auditedRequest // nil if nobody records the request
	observed    *observation    // nil without an observer
	logAccess   func()          // writes the line in the access log; nil writes none
	traced      func(code int)  // ends what the tracer has begun; nil without one
	// stream, if set, is what is left to do of a long-running request: it runs when everything that led to it has
	// returned, since that would keep the stack large and the request in memory for as long.
	stream stream
}

// stream is the part of a response that lasts.
type stream interface {
	serve(ctx context.Context)
}

// handlerPanic carries a panic, and where it happened, from the goroutine of a handler to that of its connection.
type handlerPanic struct {
	value any
	stack []byte
}

// late tells whether the client was told that the request took too long.
func (x *exchange) late() bool { return x.timed != nil && x.timed.isExpired() }

// answered is the code that the client gets, after a panic if that is not nil; 0 if the response was broken off before it
// began.
func (x *exchange) answered(panicked any) int {
	switch {
	case x.late():
		return http.StatusGatewayTimeout
	case x.code != 0 || panicked == http.ErrAbortHandler:
		return x.code
	case panicked != nil:
		return http.StatusInternalServerError
	default:
		return http.StatusOK // as net/http answers for a handler that wrote nothing
	}
}

// shortID is the request's ID for logs: clients choose it.
func (x *exchange) shortID() string { return x.auditID[0][:min(len(x.auditID[0]), 64)] }

// attributes are what authorizers and the audit policy see of the request.
func (x *exchange) attributes(r *http.Request) authz.Attributes {
	a := attributes(x.user, &x.request)
	verb := x.request.Verb
	if (verb == "list" || verb == "watch" || verb == "deletecollection") && !x.request.prefixed && r.URL.RawQuery != "" {
		query := r.URL.Query()
		// A selector that does not parse narrows nothing here and is refused later.
		a.FieldSelector, _ = selector.ParseFields(query.Get("fieldSelector"))
		a.LabelSelector, _ = selector.ParseLabels(query.Get("labelSelector"))
	}
	return a
}

// attributes are what authorizers see of a request that names no selectors.
func attributes(user *authn.Identity, q *Request) authz.Attributes {
	return authz.Attributes{
		User: user, Verb: q.Verb, Group: q.Group, Version: q.Version, Resource: q.Resource, Subresource: q.Subresource,
		Namespace: q.Namespace, Name: q.Name, Path: q.Path, ResourceRequest: q.IsResource,
	}
}

// reject answers with the error of a filter.
func (x *exchange) reject(r *http.Request, err error) {
	x.Header().Set("X-Content-Type-Options", "nosniff")
	writeError(x, r, err)
}

// Header implements http.ResponseWriter.
func (x *exchange) Header() http.Header { return x.w.Header() }

// WriteHeader implements http.ResponseWriter.
func (x *exchange) WriteHeader(code int) {
	if x.code == 0 && (code >= http.StatusOK || code == http.StatusSwitchingProtocols) {
		x.begin(code)
	}
	x.w.WriteHeader(code)
}

// begin notes that the response has begun.
func (x *exchange) begin(code int) {
	x.code = code
	x.audit.responseBegan(&x.request, x.longRunning, code)
}

// Write implements http.ResponseWriter.
func (x *exchange) Write(b []byte) (int, error) {
	if x.code == 0 {
		x.WriteHeader(http.StatusOK)
	}
	x.audit.wrote(b)
	n, err := x.w.Write(b)
	x.size += int64(n)
	if x.longRunning && x.code == http.StatusOK {
		x.observed.sent(n)
	}
	return n, err
}

// FlushError sends what was written; http.ResponseController finds it.
func (x *exchange) FlushError() error {
	if x.code == 0 {
		x.WriteHeader(http.StatusOK)
	}
	return flush(x.w)
}

// flush does what http.ResponseController's Flush does without its allocation for each event sent to each watcher.
func flush(w http.ResponseWriter) error {
	if f, ok := w.(interface{ FlushError() error }); ok {
		return f.FlushError()
	}
	return http.NewResponseController(w).Flush()
}

// Flush implements http.Flusher.
func (x *exchange) Flush() { _ = x.FlushError() } // a client that is gone is no error of ours

// Hijack implements http.Hijacker.
func (x *exchange) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if x.code == 0 {
		x.begin(http.StatusSwitchingProtocols)
	}
	return http.NewResponseController(x.w).Hijack()
}

// Unwrap lets http.ResponseController reach deadlines.
func (x *exchange) Unwrap() http.ResponseWriter { return x.w }
