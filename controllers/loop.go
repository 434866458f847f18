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

// ErrStarted is the error of running something for the second time that can run only once, such as a Loop.
var ErrStarted = errors.New("already run")

// Retry says when a key is retried after Reconcile failed. A zero field means the default.
type Retry struct {
	// First is the delay after the first failure in a row (5 ms); each further failure doubles it, up to Max (1000 s).
	First, Max time.Duration
	// Limit, when positive, is the number of retries in a row after which the key is dropped until something enqueues
	// it again.
	Limit int
}

// Retrier is implemented by controllers that do not use the default retries.
type Retrier interface {
	// Retry returns the controller's own settings. It is called once, by NewLoop.
	Retry() Retry
}

// Options of a Loop. The zero value is ready to use.
type Options struct {
	// Workers is how many keys are reconciled concurrently; 0 means 1, which also keeps writes in the order of the
	// queue. Upstream uses 5 for most controllers.
	Workers int
	// Retry overrides, field by field, the settings of the controller or the defaults.
	Retry Retry
	// Batch, when positive, delays keys until the next multiple of Batch plus Offset: changes that arrive together are
	// processed together, in the order of their keys. Inside a testing/synctest bubble many things happen at one
	// instant, in varying order. Loops with the same Batch and different Offsets (10 ms, say, and 1 ms apart) act at
	// different instants, and therefore in the same order in every run, as long as nothing else acts at those instants.
	Batch, Offset time.Duration
	// Logger logs failed reconciliations; nil discards.
	Logger *slog.Logger
}

// Loop runs a Controller: it waits for the caches, hands keys to workers and retries failed ones. As in upstream's
// controllers, the delay of each key doubles from 5 ms to 1000 s, and all retries together are limited to ten per
// second after a burst of a hundred.
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

// with returns r with the fields that o sets.
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

// Run attaches the controller to its informers, waits until they are in sync and works until the context ends; the
// caller runs the informers. It fails with ErrStarted when called again, and when a cache stops before it is in sync.
func (l *Loop) Run(ctx context.Context) error {
	if !l.started.CompareAndSwap(false, true) {
		return ErrStarted
	}
	for _, cache := range l.controller.Watch(l.queue) {
		if err := cache.WaitSynced(ctx); err != nil {
			if lifecycle.Ends(ctx) {
				return nil // the regular end, of which the informer was told first
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

// work reconciles one key after another.
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

// settle decides when key is reconciled again.
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

// failed counts a failure and returns the delay before the retry, or false if there is none.
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
