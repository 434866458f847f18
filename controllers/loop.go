package controllers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/keelson-dev/keelson/lifecycle"
)

// ErrStarted: what can be run once, such as a Loop, was run before.
var ErrStarted = errors.New("already run")

// Retry says when a key whose Reconcile failed comes again. A zero field takes the default.
type Retry struct {
	// First is the delay after the first failure in a row (5 ms); every further one doubles
	// it, up to Max (1000 s).
	First, Max time.Duration
	// Limit, when positive, is the number of retries in a row after which the key is given up
	// until something enqueues it again.
	Limit int
}

// Retrier is implemented by controllers whose keys are to be retried in another way than by
// default.
type Retrier interface {
	// Retry returns the controller's own rules. It is called once, when the Loop is made.
	Retry() Retry
}

// Options of a Loop. The zero value is ready to use.
type Options struct {
	// Workers is how many keys are reconciled at once; 0 is 1, which also keeps the order of
	// writes that of the queue. Upstream runs 5 for most controllers.
	Workers int
	// Retry overrides, field by field, what the controller or the default says.
	Retry Retry
	// Batch, when positive, makes keys wait for the next instant that is a multiple of Batch
	// plus Offset, so that changes that come together are taken in together, in the order of
	// their keys. Inside a testing/synctest bubble, where many things happen at one instant
	// in an order that varies, loops of the same Batch and different Offsets (10 ms, say,
	// and 1 ms apart) each act at instants of their own, and so act the same in every run as
	// long as nobody else acts at just these instants.
	Batch, Offset time.Duration
	// Logger is told about failed reconciliations; nil discards.
	Logger *slog.Logger
}

// Loop runs a Controller: it waits for the caches, hands keys to workers and retries what
// failed, each key with a delay that doubles from 5 ms to 1000 s, all together at most ten times
// a second after a burst of a hundred, as upstream's controllers do.
type Loop struct {
	controller Controller
	workers    int
	retry      Retry
	log        *slog.Logger
	queue      *queue
	started    atomic.Bool

	mu       sync.Mutex
	failures map[Key]int
	bucket   *rate.Limiter
}

var _ lifecycle.Runnable = (*Loop)(nil)

// NewLoop makes the loop of a controller. It starts nothing.
func NewLoop(c Controller, o Options) *Loop {
	l := &Loop{
		controller: c,
		workers:    max(o.Workers, 1),
		retry:      Retry{First: 5 * time.Millisecond, Max: 1000 * time.Second},
		log:        o.Logger,
		queue:      newQueue(o.Batch, o.Offset),
		failures:   map[Key]int{},
		bucket:     rate.NewLimiter(10, 100),
	}
	if r, ok := c.(Retrier); ok {
		l.retry = l.retry.with(r.Retry())
	}
	l.retry = l.retry.with(o.Retry)
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	l.log = l.log.With("controller", c.Name())
	return l
}

// with returns r where o says nothing, else o.
func (r Retry) with(o Retry) Retry {
	if o.First > 0 {
		r.First = o.First
	}
	if o.Max > 0 {
		r.Max = o.Max
	}
	if o.Limit > 0 {
		r.Limit = o.Limit
	}
	return r
}

// Run attaches the controller to its informers, waits until these are in sync and works until
// the context ends; somebody else has to run the informers. It fails with ErrStarted the second
// time, and when a cache stops before it was in sync.
func (l *Loop) Run(ctx context.Context) error {
	if !l.started.CompareAndSwap(false, true) {
		return ErrStarted
	}
	for _, cache := range l.controller.Watch(l.queue) {
		if err := cache.WaitSynced(ctx); err != nil {
			if ctx.Err() != nil {
				return nil //nolint:nilerr // the end of the context is the regular end
			}
			return fmt.Errorf("%s: waiting for caches: %w", l.controller.Name(), err)
		}
	}
	l.log.Debug("caches in sync", "workers", l.workers)
	var workers sync.WaitGroup
	for range l.workers {
		workers.Go(func() { l.work(ctx) })
	}
	workers.Wait()
	return nil
}

// work reconciles one key after the other.
func (l *Loop) work(ctx context.Context) {
	for {
		key, ok := l.queue.next(ctx)
		if !ok {
			return
		}
		result, err := l.controller.Reconcile(ctx, key)
		l.settle(ctx, key, result, err)
		l.queue.done(key)
	}
}

// settle decides when key comes again.
func (l *Loop) settle(ctx context.Context, key Key, result Result, err error) {
	if err == nil {
		l.forget(key)
		if result.RequeueAfter > 0 {
			l.queue.AddAfter(key, result.RequeueAfter)
		}
		return
	}
	if ctx.Err() != nil {
		return
	}
	delay, again := l.failed(key)
	if !again {
		l.log.Error("reconciling failed, giving up", "key", key.String(), "error", err)
		return
	}
	l.log.Warn("reconciling failed", "key", key.String(), "retry", delay, "error", err)
	l.queue.AddAfter(key, delay)
}

func (l *Loop) forget(key Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.failures, key)
}

// failed counts a failure and returns the delay until the retry, or false for no retry.
func (l *Loop) failed(key Key) (time.Duration, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.failures[key]
	if l.retry.Limit > 0 && n >= l.retry.Limit {
		delete(l.failures, key)
		return 0, false
	}
	l.failures[key] = n + 1
	delay := l.retry.Max
	if l.retry.First <= l.retry.Max>>n {
		delay = l.retry.First << n
	}
	return max(delay, l.bucket.Reserve().Delay()), true
}
