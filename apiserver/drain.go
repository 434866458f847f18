package apiserver

import (
	"context"
	"net/http"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Drain lets the owner of a listener shut it down gracefully. Its Handler stands between the listener and the server, so
// that requests from other listeners and from Transports to the same server are not affected. The owner calls Begin, goes
// on serving until load balancers have noticed that readiness fails, calls EndStreams, closes the listener to new
// connections, and waits for the remaining requests, by Wait or by the listener's own means. A Drain is used once and is
// safe for concurrent use.
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

// Begin announces the shutdown: from then on Begun is closed. It may be called more than once.
func (d *Drain) Begin() { d.begin.Do(func() { close(d.begun) }) }

// Begun returns a channel that is closed once Begin has been called. A readiness check reads it.
func (d *Drain) Begun() <-chan struct{} { return d.begun }

// EndStreams ends the long-running requests: watches at once and cleanly, others by their context. New ones are answered
// with 503 and a Retry-After header: another server may take them.
func (d *Drain) EndStreams() {
	d.Begin()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	for cancel := range d.streams {
		(*cancel)()
	}
}

// stream adds a long-running request. It returns false after EndStreams.
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

// Wait returns nil when no request is being served, or the context's error if that ends first.
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

// Handler returns a handler that counts the requests that it passes on to next.
func (d *Drain) Handler(next http.Handler) http.Handler { return &drained{d, next} }

// drained is a handler whose requests a Drain counts.
type drained struct {
	drain *Drain
	next  http.Handler
}

// ServeHTTP implements http.Handler. Its frame lasts as long as a watch: it is kept small.
func (h *drained) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var cancel *context.CancelFunc
	h.drain.add(1)
	defer func() { h.drain.leave(cancel) }()
	if r, cancel = h.drain.enter(w, r); r != nil {
		h.next.ServeHTTP(w, r)
	}
}

// enter returns the request to serve, nil if it was refused, and the cancel function of a long-running one. It is not
// inlined, so that a watch that waits does not keep its frame.
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
	r.Header.Del("Accept") // as upstream, which answers in JSON whatever the client accepts
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
