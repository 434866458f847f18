package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// life is the state of a cluster: made, running, ended. Each happens once.
type life struct {
	ready    *once
	informed *once         // closed when all shared caches are in sync
	done     chan struct{} // closed at the end, with err set before

	mu       sync.Mutex
	begun    bool
	cancel   context.CancelFunc
	stopping <-chan struct{} // closed when the cluster is to end; nil before Run
	err      error
}

func newLife() life { return life{ready: newOnce(), informed: newOnce(), done: make(chan struct{})} }

// begin derives the context of the cluster's only run.
func (l *life) begin(ctx context.Context) (context.Context, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.begun {
		return nil, ErrStarted
	}
	ctx, l.cancel = context.WithCancel(ctx)
	l.begun, l.stopping = true, ctx.Done()
	return ctx, nil
}

// end records the end of the run.
func (l *life) end(err error) {
	l.err = err
	l.cancel()
	close(l.done)
}

// Start makes a cluster, runs it in the background until Close or until ctx ends, and returns once a pod can be created
// in the namespace default. If it fails, nothing is left running.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	c, err := New(o)
	if err != nil {
		return nil, err
	}
	run, err := c.life.begin(ctx)
	if err != nil {
		return nil, err
	}
	go c.live(run)
	if err := c.WaitReady(ctx); err != nil {
		if closeErr := c.Close(); !errors.Is(err, closeErr) {
			err = errors.Join(err, closeErr)
		}
		return nil, err
	}
	return c, nil
}

// Run runs the cluster until ctx ends or Close is called, for callers that want to own the goroutine; others use Start.
// When it returns, everything is stopped and the storage is closed; the error is nil, or that of the part that failed.
// A cluster runs once: after that, or after Close, Run returns ErrStarted.
func (c *Cluster) Run(ctx context.Context) error {
	run, err := c.life.begin(ctx)
	if err != nil {
		return err
	}
	c.live(run)
	return c.life.err
}

func (c *Cluster) live(ctx context.Context) {
	defer context.AfterFunc(ctx, c.Drain)()
	err := c.run(ctx)
	c.life.end(errors.Join(err, c.closer()))
}

// Close ends the cluster, waits for it, and returns the error of Run. If the cluster was never run, it only closes the
// storage. It may be called repeatedly, and returns the same error each time.
func (c *Cluster) Close() error {
	if _, err := c.life.begin(context.Background()); err == nil {
		c.front.transport.Close()
		c.front.memory.Close()
		c.life.end(c.closer())
	}
	c.life.mu.Lock()
	cancel := c.life.cancel
	c.life.mu.Unlock()
	cancel()
	<-c.life.done
	return c.life.err
}

// WaitReady blocks until a pod can be created in the namespace default. It fails if ctx ends first, or if the cluster
// ends or has ended, with the error of Run or ErrClosed.
func (c *Cluster) WaitReady(ctx context.Context) error {
	select {
	case <-c.life.done:
	case <-ctx.Done():
		return ctx.Err()
	case <-c.life.ready.done:
		if !c.life.over() {
			return nil
		}
		<-c.life.done
	}
	if c.life.err != nil {
		return c.life.err
	}
	return ErrClosed
}

// over reports whether the cluster is ending or has ended.
func (l *life) over() bool {
	l.mu.Lock()
	stopping := l.stopping
	l.mu.Unlock()
	select {
	case <-stopping:
		return true
	default:
		return false
	}
}

// roundTripper passes requests to the handler, and fails with ErrClosed after the end.
type roundTripper struct {
	cluster *Cluster
	prepare func(*http.Request) *http.Request
}

func (t roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.cluster.front.transport.RoundTrip(t.prepare(r))
	if err != nil && t.cluster.life.over() && r.Context().Err() == nil {
		return nil, fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return resp, err
}

// gate is the handler for servers outside the cluster. They may outlive the cluster, so their watches end with it and
// later requests are refused.
type gate struct{ cluster *Cluster }

func (g gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if g.cluster.life.over() {
		refuse(w)
		return
	}
	g.cluster.front.handler.ServeHTTP(w, r)
}

// refuse answers that the cluster is closed.
func refuse(w http.ResponseWriter) {
	status := apierrors.NewServiceUnavailable(ErrClosed.Error()).Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	data, err := json.Marshal(status)
	if err != nil {
		http.Error(w, ErrClosed.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = w.Write(data) // fails only if the client is gone
}

// once closes a channel at the first call.
type once struct {
	sync.Once
	done chan struct{}
}

func newOnce() *once { return &once{done: make(chan struct{})} }

func (o *once) fire() { o.Do(func() { close(o.done) }) }
