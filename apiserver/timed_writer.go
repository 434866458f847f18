package apiserver

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// lingerTime is how long a client may go on sending its request or reading its answer when the request's time is over.
const lingerTime = time.Second

// unblock ends the writes of a handler when its context ends, even if a client that does not read is blocking them. The
// handler calls the returned function when it is done.
func unblock(ctx context.Context, w http.ResponseWriter) (done func()) {
	connection, set := http.NewResponseController(w), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(set)
		_ = connection.SetWriteDeadline(time.Now().Add(lingerTime))
	})
	return func() {
		if !stop() {
			<-set
			_ = connection.SetWriteDeadline(time.Time{}) // the connection's next answer has a deadline of its own
		}
	}
}

// writeChunk is how much of an answer a client has to read within its patience.
const writeChunk = 64 << 10

// timedWriter is a response that is closed to its handler when the request's time is over. It keeps the headers apart
// until they are sent.
type timedWriter struct {
	w          http.ResponseWriter
	header     http.Header // the handler's
	connection *http.ResponseController
	end        time.Time     // after it nothing is read from the client
	patience   time.Duration // how long the client may read nothing
	reading    atomic.Bool   // the handler waits for the body

	mu       sync.Mutex
	begun    bool // the headers are sent, or the connection is hijacked
	hijacked bool
	expired  bool
	drains   bool // net/http reads what is left of the body before it answers
}

// setReadDeadline bounds how long is read from the client. Connections that cannot do so are left to the request's own
// timeout.
func (t *timedWriter) setReadDeadline(at time.Time) {
	if at.After(t.end) {
		at = t.end
	}
	_ = t.connection.SetReadDeadline(at)
}

// beginBody bounds how long the body may take. When the request's time is over, the connection may already be another
// request's: then nothing may be read.
func (t *timedWriter) beginBody(timeout time.Duration) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.expired {
		return http.ErrHandlerTimeout
	}
	t.setReadDeadline(time.Now().Add(timeout))
	return nil
}

// abandonBody says that nobody waits for the rest of the body.
func (t *timedWriter) abandonBody() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drains = false
}

// writeInChunks writes to the client, which has to read each chunk within its patience.
func (t *timedWriter) writeInChunks(b []byte) (written int, err error) {
	for {
		n := 0
		err := t.withWriteTimeout(func() (err error) {
			n, err = t.w.Write(b[:min(len(b), writeChunk)])
			return err
		})
		written, b = written+n, b[n:]
		if err != nil || len(b) == 0 {
			return written, err
		}
	}
}

// withWriteTimeout does something, and cuts the client off if that takes longer than its patience. A deadline set
// beforehand would not do: in HTTP/2 it ends the stream even while nothing is written.
func (t *timedWriter) withWriteTimeout(do func() error) error {
	set := make(chan struct{})
	timer := time.AfterFunc(t.patience, func() {
		defer close(set)
		_ = t.connection.SetWriteDeadline(time.Now())
	})
	err := do()
	if !timer.Stop() {
		<-set // the deadline must not hit the connection's next request
	}
	return err
}

// finish ends the request when its handler returned, or panicked with p.
func (t *timedWriter) finish(p *handlerPanic) {
	t.allowLastReads()
	if p != nil {
		panic(p)
	}
}

// allowLastReads gives the client time for the end of its body and of the answer, which net/http has yet to send.
func (t *timedWriter) allowLastReads() {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := time.Now().Add(t.patience)
	if t.hijacked {
		return
	}
	if t.drains {
		t.setReadDeadline(at)
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
	return t.writeInChunks(b)
}

// FlushError sends what was written; http.ResponseController finds it.
func (t *timedWriter) FlushError() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.expired {
		return http.ErrHandlerTimeout
	}
	t.send()
	return t.withWriteTimeout(t.connection.Flush)
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
