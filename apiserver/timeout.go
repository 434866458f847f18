package apiserver

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// requestTimeout ends requests that are not long-running, as upstream's does.
	requestTimeout = time.Minute
	// linger is how long a client may go on sending its request or reading its answer when the time is over.
	linger = time.Second
)

// timeout is how long a request may take: what its client asks for, within the server's limit.
func (s *Server) timeout(r *http.Request) (time.Duration, error) {
	if !strings.Contains(r.URL.RawQuery, "timeout=") {
		return s.maxTime, nil
	}
	value := r.URL.Query().Get("timeout")
	if value == "" {
		return s.maxTime, nil
	}
	asked, err := time.ParseDuration(value)
	if err != nil {
		return s.maxTime, apierrors.NewBadRequest(fmt.Sprintf("invalid timeout specified in the request URL - %v", err))
	}
	if asked <= 0 || asked > s.maxTime {
		return s.maxTime, nil
	}
	return asked, nil
}

// inProcess tells whether a request comes from this process, by a Transport. Its caller waits in
// the goroutine that serves it and cannot be answered before.
func inProcess(w http.ResponseWriter) bool {
	_, ok := w.(*recorder)
	return ok
}

// expire answers a request of this process that ran out of time before anybody answered.
func (x *exchange) expire(r *http.Request) {
	if x.code == 0 && late(r.Context()) {
		x.sawTimeout(r)
		writeError(x, r, errTimeout())
	}
}

// race serves a request in a goroutine of its own, against time. If that wins the client is
// answered at once; the goroutine goes on until its handler notices, and writes into the void.
func (x *exchange) race(ctx context.Context, r *http.Request, bad error) {
	own := r.WithContext(ctx)
	end, _ := ctx.Deadline()
	t := &timedWriter{
		w: x.w, header: x.w.Header().Clone(), connection: http.NewResponseController(x.w), end: end.Add(linger), patience: x.server.patience.Answer,
	}
	if t.drains = r.ProtoMajor == 1 && r.ContentLength != 0; t.drains {
		// Of HTTP/2 only the stream ends with the answer; here who waits for the body keeps it from its client.
		t.awaitUntil(t.end)
	}
	x.w, x.timed = t, t
	done := make(chan *caught, 1)
	go func() {
		var p *caught
		defer func() { done <- p }()
		defer func() {
			if value := recover(); value != nil {
				p = &caught{value: value, stack: debug.Stack()}
			}
		}()
		x.serve(own, bad)
	}()
	select {
	case p := <-done:
		t.answered(p)
		return
	case <-ctx.Done():
	}
	if t.reading.Load() && !late(ctx) {
		// In HTTP/1.1 a body that does not come in time ends the context, too; the handler has the answer.
		select {
		case p := <-done:
			t.answered(p)
			return
		case <-time.After(linger):
		}
	}
	x.sawTimeout(r)
	_ = t.connection.SetWriteDeadline(time.Now().Add(linger)) // the handler may be held up by a client that does not read
	if t.expire() {
		t.last()
		return
	}
	// An answer has begun: half of one that took too long, or that of a handler that noticed before we did, and says so.
	select {
	case p := <-done:
		if x.code >= http.StatusBadRequest {
			t.answered(p)
			return
		}
	case <-time.After(linger):
	}
	t.close()
	panic(http.ErrAbortHandler)
}

// unblock lets a handler go when its context ends, even if it is held up by a client that does not read what
// it is sent. The handler calls what is returned when it is done.
func unblock(ctx context.Context, w http.ResponseWriter) (done func()) {
	connection, set := http.NewResponseController(w), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(set)
		_ = connection.SetWriteDeadline(time.Now().Add(linger))
	})
	return func() {
		if !stop() {
			<-set
			_ = connection.SetWriteDeadline(time.Time{}) // the connection's next answer has its own time
		}
	}
}

// stride is how much of an answer a client has to take, at least, while it is waited for.
const stride = 64 << 10

// timedWriter is a response that time may close. It keeps the headers apart until they are sent.
type timedWriter struct {
	w          http.ResponseWriter
	header     http.Header // the handler's
	connection *http.ResponseController
	end        time.Time     // when nothing is read from the client any more
	patience   time.Duration // how long the client may read nothing
	reading    atomic.Bool   // the body

	mu       sync.Mutex
	begun    bool // the headers are sent, or the connection is somebody else's
	hijacked bool
	expired  bool
	drains   bool // net/http reads what is left of the body before it answers
}

// awaitUntil bounds how long the client is listened to. Not every connection can; the request's time ends it then.
func (t *timedWriter) awaitUntil(at time.Time) {
	if at.After(t.end) {
		at = t.end
	}
	_ = t.connection.SetReadDeadline(at)
}

// giveUp tells that nobody waits for the rest of the body.
func (t *timedWriter) giveUp() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drains = false
}

// push writes to the client, who has to read some of it every now and then.
func (t *timedWriter) push(b []byte) (written int, err error) {
	for {
		n := 0
		err := t.patiently(func() (err error) {
			n, err = t.w.Write(b[:min(len(b), stride)])
			return err
		})
		written, b = written+n, b[n:]
		if err != nil || len(b) == 0 {
			return written, err
		}
	}
}

// patiently cuts the client off if what is done takes longer than it may. A deadline set beforehand would not do: in
// HTTP/2 it ends the stream also while nothing is written.
func (t *timedWriter) patiently(do func() error) error {
	set := make(chan struct{})
	timer := time.AfterFunc(t.patience, func() {
		defer close(set)
		_ = t.connection.SetWriteDeadline(time.Now())
	})
	err := do()
	if !timer.Stop() {
		<-set // nothing of this shall come upon the connection's next request
	}
	return err
}

// answered ends the request when its handler returned, or panicked with p.
func (t *timedWriter) answered(p *caught) {
	t.last()
	if p != nil {
		panic(p)
	}
}

// last gives the client time for the end of its body and of the answer, which net/http has yet to send.
func (t *timedWriter) last() {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := time.Now().Add(t.patience)
	if t.hijacked {
		return
	}
	if t.drains {
		t.awaitUntil(at)
		at = at.Add(t.patience)
	}
	_ = t.connection.SetWriteDeadline(at)
}

// Header implements http.ResponseWriter.
func (t *timedWriter) Header() http.Header {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.expired {
		return http.Header{}
	}
	return t.header
}

// WriteHeader implements http.ResponseWriter.
func (t *timedWriter) WriteHeader(code int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.expired || t.begun {
		return
	}
	t.send()
	t.w.WriteHeader(code)
}

func (t *timedWriter) send() {
	if !t.begun {
		t.begun = true
		maps.Copy(t.w.Header(), t.header)
	}
}

// Write implements http.ResponseWriter.
func (t *timedWriter) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.expired:
		return 0, http.ErrHandlerTimeout
	case t.hijacked:
		return 0, http.ErrHijacked
	}
	t.send()
	return t.push(b)
}

// FlushError sends what was written; http.ResponseController finds it.
func (t *timedWriter) FlushError() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.expired {
		return http.ErrHandlerTimeout
	}
	t.send()
	return t.patiently(t.connection.Flush)
}

// Hijack implements http.Hijacker.
func (t *timedWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.expired {
		return nil, nil, http.ErrHandlerTimeout
	}
	connection, buffer, err := t.connection.Hijack()
	if err == nil {
		t.begun, t.hijacked = true, true
	}
	return connection, buffer, err
}

// expire closes the response to its handler and tells the client why, in upstream's words and without a type as there.
// It returns false, and closes nothing, if an answer has begun.
func (t *timedWriter) expire() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.begun {
		return false
	}
	t.expired = true
	var status *apierrors.StatusError
	if !errors.As(errTimeout(), &status) {
		return false
	}
	t.w.WriteHeader(http.StatusGatewayTimeout)
	if data, err := json.Marshal(&status.ErrStatus); err == nil {
		_, _ = t.w.Write(append(data, '\n')) // a client that is gone is no error of ours
	}
	return true
}

// close closes the response to its handler.
func (t *timedWriter) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expired = true
}

func (t *timedWriter) isExpired() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.expired
}
