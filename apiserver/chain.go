package apiserver

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/keelson-dev/keelson/apiserver/audit"
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/authz/selector"
)

// auditID is the header by which a request is known, in and out.
const auditID = "Audit-Id"

// exchange is one request on its way through the chain, and the response to it: whoever answers
// writes to it.
type exchange struct {
	server   *Server
	w        http.ResponseWriter
	q        Request
	user     *authn.Identity // who authenticated, or whom they act as
	id       [1]string       // Audit-Id
	received time.Time
	method   string
	long     bool // it lasts as long as its client wants
	code     int  // of the response, 0 before there is one
	size     int64
	timed    *timedWriter // of a request that came from outside and is not long
	audit    *recording   // nil if nobody records the request
	seen     *Observation // nil without an observer
	// rest, if set, is what is left to do of a request that lasts: it runs without what led to it, which
	// would keep the stack large and the request in memory for as long.
	rest *watchStream
	line *line // of a request that rests, for the access log
}

// ServeHTTP runs a request through the chain. In upstream's order: the request's ID, recovery from
// panics, what is asked for, time-out, authentication, audit, impersonation, limits of what is in
// flight, authorization.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{server: s, w: w, received: time.Now(), method: r.Method}
	defer x.recover()
	if ctx := x.lead(r); ctx != nil {
		x.stay(ctx)
	}
}

// lead serves a request, or that part of it that comes before waiting: then it returns the context for what is left.
//
//go:noinline
func (x *exchange) lead(r *http.Request) (rest context.Context) {
	x.open(r)
	x.q = ParseRequest(r)
	x.long = x.q.LongRunning()
	x.observe(r)
	if x.q.nameless {
		internalError(x.w, r, fmt.Errorf("failed to create RequestInfo: unable to determine kind and namespace from url, %s", r.URL.RequestURI()))
		return nil
	}
	x.w.Header()["Cache-Control"] = []string{"no-cache, private"}
	if x.long {
		own := r.WithContext(r.Context())
		x.serve(own, nil)
		if x.rest == nil {
			return nil
		}
		return own.Context()
	}
	limit, err := x.server.timeout(r)
	ctx, cancel := context.WithDeadline(r.Context(), x.received.Add(limit))
	defer cancel()
	if inProcess(x.w) {
		own := r.WithContext(ctx)
		x.serve(own, err)
		x.expire(own)
		return nil
	}
	x.race(ctx, r, err)
	return nil
}

// stay does what is left. Its frame, and those of who called it, stay as long as a watch: they are kept small.
func (x *exchange) stay(ctx context.Context) {
	defer x.finish(nil)
	x.rest.serve(ctx)
}

// open gives the request its ID.
func (x *exchange) open(r *http.Request) {
	if x.id[0] = r.Header.Get(auditID); x.id[0] == "" {
		x.id[0] = newID()
	}
	h := x.w.Header()
	if len(h[auditID]) == 0 {
		h[auditID] = x.id[:]
	}
}

// newID makes a random UUID (RFC 9562, version 4). It need not be secret.
func newID() string {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(b[8:], rand.Uint64())
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	var text [36]byte
	hex.Encode(text[:8], b[:4])
	hex.Encode(text[9:13], b[4:6])
	hex.Encode(text[14:18], b[6:8])
	hex.Encode(text[19:23], b[8:10])
	hex.Encode(text[24:], b[10:])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return string(text[:])
}

// caught is a panic of another goroutine, with where it happened.
type caught struct {
	value any
	stack []byte
}

// recover answers for a handler that panicked. A response that has begun is broken off: more text
// would pass for a part of it.
func (x *exchange) recover() {
	p := recover()
	if p == nil {
		return
	}
	value, stack := p, []byte(nil)
	if c, ok := p.(*caught); ok {
		value, stack = c.value, c.stack
	}
	if value == http.ErrAbortHandler {
		panic(value)
	}
	if stack == nil {
		stack = debug.Stack()
	}
	x.server.log.Error("request handler panicked", "method", x.method, "path", x.q.Path, "audit-id", x.shortID(), "panic", fmt.Sprint(value), "stack", string(stack))
	if x.code != 0 {
		panic(http.ErrAbortHandler)
	}
	http.Error(x.w, "This request caused apiserver to panic. Look in the logs for details.", http.StatusInternalServerError)
}

// serve runs the request, which is its to change, through what needs to know who makes it. bad is
// what is wrong with its time-out.
func (x *exchange) serve(r *http.Request, bad error) {
	defer x.finish(r)
	x.through(r, bad)
}

func (x *exchange) through(r *http.Request, bad error) {
	if x.server.audit != nil {
		x.audit = &recording{record: x.server.audit.Open()}
		*r = *r.WithContext(audit.NewContext(r.Context(), x.audit.record))
	}
	if bad != nil {
		x.refuse(r, bad)
		return
	}
	id := x.authenticate(r)
	if id == nil {
		return
	}
	x.user = id
	ctx := authn.NewContext(r.Context(), id)
	if x.begin(r) {
		if err := x.audit.record.Received(); err != nil {
			x.audit = nil
			internalError(x, r, err)
			return
		}
	}
	as, err := x.impersonate(ctx, r)
	if err != nil {
		x.reject(r, err)
		return
	}
	if as != nil {
		x.user = as
		ctx = authn.NewContext(ctx, as)
	}
	seat, ok := x.enter(r)
	if !ok {
		return
	}
	defer seat.leave()
	*r = *r.WithContext(ctx)
	if x.seen != nil && r.Body != nil {
		r.Body = counted{r.Body, &x.seen.Body}
	}
	if x.timed != nil && r.Body != nil && r.Body != http.NoBody {
		r.Body = &punctual{ReadCloser: r.Body, of: x.timed, limit: x.server.patience.Body}
	}
	if x.authorize(r) {
		x.server.route(x, r, x.q)
	}
}

// authenticate tells who makes the request; nil if that was answered with an error.
func (x *exchange) authenticate(r *http.Request) *authn.Identity {
	began := x.now()
	id, err := x.server.authn.Authenticate(r)
	if err == nil && id == nil {
		err = authn.ErrNoCredentials
	}
	x.sawAuthentication(id, err, began)
	if err != nil {
		x.server.log.Info("request not authenticated", "method", r.Method, "path", r.URL.Path, "audit-id", x.shortID(), "error", err)
		x.onlyOnce(r)
		x.refuse(r, apierrors.NewUnauthorized("Unauthorized"))
		return nil
	}
	// Nobody behind needs the credentials, and nobody shall take such headers for the proxy's.
	r.Header.Del("Authorization")
	for name := range r.Header {
		if strings.HasPrefix(name, "X-Remote-") && (name == "X-Remote-User" || name == "X-Remote-Uid" ||
			name == "X-Remote-Group" || strings.HasPrefix(name, "X-Remote-Extra-")) {
			delete(r.Header, name)
		}
	}
	if id.Name == authn.Anonymous || slices.Contains(id.Groups, authn.GroupUnauthenticated) {
		x.onlyOnce(r)
	}
	return id
}

// onlyOnce ends an HTTP/2 connection with this request: who has not authenticated must not hold
// on to such, as they are easily abused (CVE-2023-44487).
func (x *exchange) onlyOnce(r *http.Request) {
	if r.ProtoMajor == 2 {
		x.w.Header().Set("Connection", "close")
	}
}

// attributes are what the request is to policies.
func (x *exchange) attributes(r *http.Request) authz.Attributes {
	a := attributes(x.user, &x.q)
	if (x.q.Verb == "list" || x.q.Verb == "watch" || x.q.Verb == "deletecollection") && !x.q.prefixed && r.URL.RawQuery != "" {
		query := r.URL.Query()
		// A selector that does not parse narrows nothing here and is refused later.
		a.FieldSelector, _ = selector.ParseFields(query.Get("fieldSelector"))
		a.LabelSelector, _ = selector.ParseLabels(query.Get("labelSelector"))
	}
	return a
}

func attributes(id *authn.Identity, q *Request) authz.Attributes {
	return authz.Attributes{
		User: id, Verb: q.Verb, Group: q.Group, Version: q.Version, Resource: q.Resource, Subresource: q.Subresource,
		Namespace: q.Namespace, Name: q.Name, Path: q.Path, ResourceRequest: q.IsResource,
	}
}

// authorize tells whether the request may go on, or answers it.
func (x *exchange) authorize(r *http.Request) bool {
	began := x.now()
	a := x.attributes(r)
	decision, err := x.server.authz.Authorize(r.Context(), a)
	x.sawAuthorization(decision.Verdict, err, began)
	switch {
	case decision.Verdict == authz.Allow:
		x.audit.decided("allow", decision.Reason)
		return true
	case err != nil:
		x.audit.decided("", "internal error")
		x.server.log.Info("authorization failed", "user", x.user.Name, "audit-id", x.shortID(), "error", err)
		internalError(x, r, err)
		return false
	}
	x.audit.decided("forbid", decision.Reason)
	x.reject(r, forbidden(a, decision.Reason))
	return false
}

// reject answers with an error of the chain's.
func (x *exchange) reject(r *http.Request, err error) {
	x.Header().Set("X-Content-Type-Options", "nosniff")
	writeError(x, r, err)
}

// finish reports a request that has been served; it is deferred. r is nil when what was left of it is done.
func (x *exchange) finish(r *http.Request) {
	p := recover()
	if r != nil {
		x.line = x.lineOf(r)
		if p == nil && x.rest != nil {
			return // not yet
		}
	}
	x.complete(p)
	x.sawEnd(p)
	x.line.write(x)
	if p != nil {
		panic(p)
	}
}

// line is what the access log tells of a request, besides what the exchange knows. nil tells nothing.
type line struct {
	log              func(attrs ...slog.Attr)
	uri, agent, from string
}

func (x *exchange) lineOf(r *http.Request) *line {
	ctx, level := r.Context(), slog.LevelDebug
	if x.code >= http.StatusInternalServerError {
		level = slog.LevelInfo
	}
	if !x.server.log.Enabled(ctx, level) {
		return nil
	}
	return &line{
		log: func(attrs ...slog.Attr) { x.server.log.LogAttrs(ctx, level, "request", attrs...) },
		uri: audit.RequestURI(r.URL), agent: r.UserAgent(), from: r.RemoteAddr,
	}
}

func (l *line) write(x *exchange) {
	if l == nil {
		return
	}
	user := ""
	if x.user != nil {
		user = x.user.Name
	}
	l.log(slog.String("verb", x.q.Verb), slog.String("uri", l.uri), slog.Int("code", x.code), slog.Duration("took", time.Since(x.received)),
		slog.String("user", user), slog.String("agent", l.agent), slog.String("from", l.from),
		slog.Int64("size", x.size), slog.String("audit-id", x.shortID()))
}

// shortID is the request's ID for logs: clients choose it.
func (x *exchange) shortID() string { return x.id[0][:min(len(x.id[0]), 64)] }

// Header implements http.ResponseWriter.
func (x *exchange) Header() http.Header { return x.w.Header() }

// WriteHeader implements http.ResponseWriter.
func (x *exchange) WriteHeader(code int) {
	if x.code == 0 && (code >= http.StatusOK || code == http.StatusSwitchingProtocols) {
		x.code = code
		x.answered(code)
	}
	x.w.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (x *exchange) Write(b []byte) (int, error) {
	if x.code == 0 {
		x.WriteHeader(http.StatusOK)
	}
	x.audit.add(b)
	n, err := x.w.Write(b)
	x.size += int64(n)
	x.sawWrite(n)
	return n, err
}

// FlushError sends what was written; http.ResponseController finds it.
func (x *exchange) FlushError() error {
	if x.code == 0 {
		x.WriteHeader(http.StatusOK)
	}
	return flush(x.w)
}

// Flush implements http.Flusher.
func (x *exchange) Flush() { _ = x.FlushError() } // a client that is gone is no error of ours

// Hijack implements http.Hijacker.
func (x *exchange) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if x.code == 0 {
		x.code = http.StatusSwitchingProtocols
		x.answered(x.code)
	}
	return http.NewResponseController(x.w).Hijack()
}

// Unwrap lets http.ResponseController reach deadlines.
func (x *exchange) Unwrap() http.ResponseWriter { return x.w }

// internalError answers as upstream's filters do when they themselves fail.
func internalError(w http.ResponseWriter, r *http.Request, err error) {
	uri := cmp.Or(r.RequestURI, r.URL.RequestURI())
	http.Error(w, escape(fmt.Sprintf("Internal Server Error: %q: %v", uri, err)), http.StatusInternalServerError)
}

// errTimeout is the answer to a request that was not served in time.
func errTimeout() error {
	return apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0)
}

// late tells whether a request's time is over.
func late(ctx context.Context) bool { return errors.Is(ctx.Err(), context.DeadlineExceeded) }
