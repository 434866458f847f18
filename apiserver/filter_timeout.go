package apiserver

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// timeoutFilter ends requests that are not long-running when their time is over.
type timeoutFilter struct {
	max      time.Duration // what clients may ask for, and get if they do not ask
	patience time.Duration // how long a client may read nothing of its answer
	next     func(*exchange, *http.Request)
	router   *router
	log      *slog.Logger
}

// timeout is how long a request may take: what its client asks for, within the limit.
func (f *timeoutFilter) timeout(r *http.Request) (time.Duration, error) {
	if !strings.Contains(r.URL.RawQuery, "timeout=") {
		return f.max, nil
	}
	value := r.URL.Query().Get("timeout")
	if value == "" {
		return f.max, nil
	}
	asked, err := time.ParseDuration(value)
	if err != nil {
		return f.max, apierrors.NewBadRequest(fmt.Sprintf("invalid timeout specified in the request URL - %v", err))
	}
	if asked <= 0 || asked > f.max {
		return f.max, nil
	}
	return asked, nil
}

// check returns false for a request whose parameter "timeout" cannot be read, which it has answered. It comes after the
// audit record is opened, unlike the timeout itself.
func (f *timeoutFilter) check(x *exchange, r *http.Request) bool {
	if x.longRunning {
		return true
	}
	if _, err := f.timeout(r); err != nil {
		x.audit.reject(x, r, err)
		return false
	}
	return true
}

// serve runs the rest of the chain within the request's time.
func (f *timeoutFilter) serve(x *exchange, r *http.Request) {
	timeout, _ := f.timeout(r) // an error is answered by check
	ctx, cancel := context.WithDeadline(r.Context(), x.received.Add(timeout))
	defer cancel()
	if _, ok := x.w.(callerWriter); ok {
		own := r.WithContext(ctx)
		f.next(x, own)
		f.expire(x, own)
		return
	}
	f.race(ctx, x, r)
}

// callerWriter is the response to a request of this process. Its caller waits in the goroutine that serves it and cannot
// be answered before the handler returns.
type callerWriter interface {
	http.ResponseWriter
	servesCaller()
}

// expire answers a request of this process that ran out of time before it was answered.
func (f *timeoutFilter) expire(x *exchange, r *http.Request) {
	if x.code == 0 && pastDeadline(r.Context()) {
		f.report(x)
		writeError(x, r, errTimeout())
	}
}

// report says that the client is told of the timeout. The handler may still be running.
func (f *timeoutFilter) report(x *exchange) {
	f.log.Info("request timed out", "method", x.method, "path", x.request.Path, "audit-id", x.shortID())
	x.observed.timedOut(f.router.name(&x.request, x.method))
}

// race serves a request in a goroutine of its own, against time. If time wins, the client is answered at once; the
// goroutine goes on until its handler notices, and what it writes is dropped.
func (f *timeoutFilter) race(ctx context.Context, x *exchange, r *http.Request) {
	own := r.WithContext(ctx)
	end, _ := ctx.Deadline()
	t := &timedWriter{
		w: x.w, header: x.w.Header().Clone(), connection: http.NewResponseController(x.w), end: end.Add(lingerTime), patience: f.patience,
	}
	if t.drains = r.ProtoMajor == 1 && r.ContentLength != 0; t.drains {
		// In HTTP/2 the answer ends the stream alone; here, waiting for the rest of the body delays the answer.
		t.setReadDeadline(t.end)
	}
	x.w, x.timed = t, t
	done := make(chan *handlerPanic, 1)
	go func() {
		var p *handlerPanic
		defer func() { done <- p }()
		defer func() {
			if value := recover(); value != nil {
				p = &handlerPanic{value: value, stack: debug.Stack()}
			}
		}()
		f.next(x, own)
	}()
	select {
	case p := <-done:
		t.finish(p)
		return
	case <-ctx.Done():
	}
	if t.reading.Load() && !pastDeadline(ctx) {
		// In HTTP/1.1 a body that does not arrive in time ends the context, too; the handler has the answer.
		select {
		case p := <-done:
			t.finish(p)
			return
		case <-time.After(lingerTime):
		}
	}
	f.report(x)
	_ = t.connection.SetWriteDeadline(time.Now().Add(lingerTime)) // a client that does not read may be blocking the handler
	if t.expire() {
		t.allowLastReads()
		return
	}
	// An answer has begun: half of one that took too long, or that of a handler that noticed before we did, and says so.
	select {
	case p := <-done:
		if x.code >= http.StatusBadRequest {
			t.finish(p)
			return
		}
	case <-time.After(lingerTime):
	}
	t.close()
	panic(http.ErrAbortHandler)
}
