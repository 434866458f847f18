package apiserver

import (
	"context"
	"net/http"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Drain lets the owner of a listener end it gently. Its Handler stands between the listener and
// the server: what other listeners and Transports bring to the same server is not touched. The
// owner calls Begin, goes on serving until load balancers have noticed that readiness fails, calls
// EndStreams, closes the listener to new connections, and waits for what is left, by Wait or by
// the listener's own means. A Drain is used once and is safe for concurrent use.
type Drain struct {
	begun chan struct{}
	begin sync.Once

	mu       sync.Mutex
	requests int
	idle     chan struct{} // closed when requests is 0; nil while nobody waits
	ended    bool          // no more streams
	streams  map[*context.CancelFunc]struct{}
}

// NewDrain returns a Drain that has not begun.
func NewDrain() *Drain {
	return &Drain{begun: make(chan struct{}), streams: map[*context.CancelFunc]struct{}{}}
}

// Begin says that the end is near.
func (d *Drain) Begin() { d.begin.Do(func() { close(d.begun) }) }

// Begun is closed when Begin was called. A readiness check looks at it.
func (d *Drain) Begun() <-chan struct{} { return d.begun }

// EndStreams ends the long-running requests: watches at once and cleanly, others by their
// context. New ones are answered with 503 and asked to come back: another server may take them.
func (d *Drain) EndStreams() {
	d.Begin()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	for cancel := range d.streams {
		(*cancel)()
	}
}

// stream adds a long-running request, if there may be such.
func (d *Drain) stream(cancel *context.CancelFunc) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended {
		return false
	}
	d.streams[cancel] = struct{}{}
	return true
}

func (d *Drain) endStream(cancel *context.CancelFunc) {
	(*cancel)()
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.streams, cancel)
}

// Wait returns when no request is being served, or with the context's error.
func (d *Drain) Wait(ctx context.Context) error {
	d.mu.Lock()
	if d.requests == 0 {
		d.mu.Unlock()
		return nil
	}
	if d.idle == nil {
		d.idle = make(chan struct{})
	}
	idle := d.idle
	d.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Handler returns next, with its requests watched over.
func (d *Drain) Handler(next http.Handler) http.Handler { return &drained{d, next} }

// drained is a handler whose requests a Drain watches over.
type drained struct {
	drain *Drain
	next  http.Handler
}

// ServeHTTP implements http.Handler. Its frame stays as long as a watch: it is kept small.
func (h *drained) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var cancel *context.CancelFunc
	h.drain.add(1)
	defer func() { h.drain.leave(cancel) }()
	if r, cancel = h.drain.enter(w, r); r != nil {
		h.next.ServeHTTP(w, r)
	}
}

// enter returns the request that is to be served, nil if it was refused, and what ends it if it is long-running.
//
//go:noinline
func (d *Drain) enter(w http.ResponseWriter, r *http.Request) (own *http.Request, cancel *context.CancelFunc) {
	q := ParseRequest(r)
	if !q.LongRunning() {
		return r, nil
	}
	ctx, end := context.WithCancel(r.Context())
	if d.stream(&end) {
		return r.WithContext(ctx), &end
	}
	r = r.Clone(ctx)
	r.Header.Del("Accept") // upstream answers in JSON whatever was asked for
	w.Header().Set("Retry-After", "1")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	writeError(w, r, apierrors.NewServiceUnavailable("apiserver is shutting down"))
	return nil, &end
}

func (d *Drain) leave(cancel *context.CancelFunc) {
	if cancel != nil {
		d.endStream(cancel)
	}
	d.add(-1)
}

func (d *Drain) add(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.requests += n; d.requests == 0 && d.idle != nil {
		close(d.idle)
		d.idle = nil
	}
}
