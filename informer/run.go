package informer

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

// change is what the reading goroutine passes to the one that owns the cache.
type change[T Object] struct {
	// list says that items is the complete state at version; otherwise events are the changes.
	list    bool
	items   []T
	version string
	events  []Event[T]
}

// loop is the private state of the goroutine in Run.
type loop[T Object] struct {
	handlers []*subscription[T]
	queues   sync.WaitGroup // the goroutines of handlers with a queue
	listed   bool
	resync   *time.Timer
}

// Run keeps the cache up to date and calls the handlers until the context ends. It then returns nil, after its
// goroutines have ended; the cache stays readable. A second call fails with ErrStarted.
func (i *Informer[T]) Run(ctx context.Context) error {
	i.handlers.mu.Lock()
	again := i.handlers.running || i.handlers.ended
	i.handlers.running = true
	i.handlers.mu.Unlock()
	if again {
		return ErrStarted
	}
	i.started.Store(true)
	defer i.end()
	ctx, cancel := context.WithCancel(ctx)
	changes, done := make(chan change[T]), make(chan struct{})
	go func() {
		defer close(done)
		r := reader[T]{source: i.source, log: i.log, onError: i.onError, out: changes}
		r.run(ctx)
	}()
	defer func() { cancel(); <-done }()
	i.loop.resync = time.NewTimer(time.Hour)
	i.loop.resync.Stop()
	defer i.loop.resync.Stop()
	for {
		select {
		case <-ctx.Done():
			i.checkAll()
			return nil
		case <-i.wake:
			i.replay()
		case <-i.loop.resync.C:
			i.resync(time.Now())
		case c := <-changes:
			select {
			case <-i.wake:
				i.replay()
			default:
			}
			i.take(c)
		}
	}
}

// end stops the handlers' goroutines and closes the channels that report the end.
func (i *Informer[T]) end() {
	i.handlers.mu.Lock()
	i.handlers.running, i.handlers.ended = false, true
	waiting := i.handlers.pending
	i.handlers.all, i.handlers.pending = nil, nil
	i.handlers.mu.Unlock()
	for _, s := range i.loop.handlers {
		i.letGo(s)
	}
	i.loop.handlers = nil
	for _, s := range waiting {
		close(s.done)
	}
	i.loop.queues.Wait()
	close(i.stopped)
}

// letGo ends a handler that the loop knows.
func (i *Informer[T]) letGo(s *subscription[T]) {
	if s.queue != nil {
		close(s.stop)
		return
	}
	close(s.done)
}

// replay passes the cached objects to new handlers, and forgets removed ones.
func (i *Informer[T]) replay() {
	for s := i.next(); s != nil; s = i.next() {
		if s.removed.Load() {
			close(s.done)
			continue
		}
		if s.queue != nil {
			i.loop.queues.Go(func() {
				defer close(s.done)
				s.drain()
			})
		}
		for _, obj := range i.List("") {
			s.deliver(Change[T]{Type: Added, Object: obj, Initial: true})
		}
		i.loop.handlers = append(i.loop.handlers, s)
		if i.loop.listed {
			s.replayed()
		}
		if s.Resync > 0 {
			s.resyncAt = time.Now().Add(s.Resync)
		}
	}
	i.loop.handlers = slices.DeleteFunc(i.loop.handlers, func(s *subscription[T]) bool {
		gone := s.removed.Load()
		if gone {
			i.letGo(s)
		}
		return gone
	})
	i.schedule()
}

// next returns the next handler to replay to, and forgets removed ones.
func (i *Informer[T]) next() *subscription[T] {
	i.handlers.mu.Lock()
	defer i.handlers.mu.Unlock()
	i.handlers.all = slices.DeleteFunc(i.handlers.all, func(s *subscription[T]) bool { return s.removed.Load() })
	if len(i.handlers.pending) == 0 {
		return nil
	}
	s := i.handlers.pending[0]
	i.handlers.pending = slices.Delete(i.handlers.pending, 0, 1)
	return s
}

// schedule sets the timer to the next resync.
func (i *Informer[T]) schedule() {
	var first time.Time
	for _, s := range i.loop.handlers {
		if s.Resync > 0 && (first.IsZero() || s.resyncAt.Before(first)) {
			first = s.resyncAt
		}
	}
	if first.IsZero() {
		i.loop.resync.Stop()
		return
	}
	i.loop.resync.Reset(time.Until(first))
}

// resync passes all objects to the handlers that are due.
func (i *Informer[T]) resync(now time.Time) {
	var due []*subscription[T]
	for _, s := range i.loop.handlers {
		s.again = s.Resync > 0 && !now.Before(s.resyncAt)
		if s.again {
			s.resyncAt = now.Add(s.Resync)
			due = append(due, s)
		}
	}
	if len(due) > 0 {
		for _, obj := range i.List("") {
			for _, s := range due {
				s.deliver(Change[T]{Type: Modified, Old: obj, Object: obj, Same: true})
			}
		}
	}
	i.schedule()
}

// take updates the cache and calls the handlers.
func (i *Informer[T]) take(c change[T]) {
	if c.list {
		i.replace(c.items, c.version)
		if !i.loop.listed {
			i.loop.listed = true
			for _, s := range i.loop.handlers {
				s.replayed()
			}
			close(i.synced)
		}
		return
	}
	for _, e := range c.events {
		i.mu.Lock()
		var n outcome[T]
		switch e.Type {
		case Added, Modified:
			n = i.put(e.Object)
		case Deleted:
			if old, ok := i.cache.remove(keyOf(e.Object)); ok {
				n = outcome[T]{old: old, ended: true, Change: Change[T]{Type: Deleted, Object: e.Object}}
			}
		case Bookmark:
		}
		i.version = e.Version
		i.mu.Unlock()
		i.tell(n)
	}
}

// replace makes items the whole content of the cache and passes the difference to the handlers: first deletions, then
// new and changed objects, each in key order.
func (i *Informer[T]) replace(items []T, version string) {
	there := make(map[key]bool, len(items))
	for _, obj := range items {
		there[keyOf(obj)] = true
	}
	again := slices.ContainsFunc(i.loop.handlers, (*subscription[T]).wantsSame)
	var all []outcome[T]
	i.mu.Lock()
	for _, obj := range i.cache.all.objects() {
		if k := keyOf(obj); !there[k] {
			old, _ := i.cache.remove(k)
			all = append(all, outcome[T]{old: old, ended: true, Change: Change[T]{Type: Deleted, Object: obj, Missed: true}})
		}
	}
	for _, obj := range inKeyOrder(items) {
		n := i.put(obj)
		n.Initial = n.Type == Added && !i.loop.listed
		if n.Type != "" && (again || !n.Same) {
			all = append(all, n)
		}
	}
	i.version = version
	i.mu.Unlock()
	for _, n := range all {
		i.tell(n)
	}
}

// inKeyOrder returns items unchanged if they are in order, as servers' lists are, or else a sorted copy.
func inKeyOrder[T Object](items []T) []T {
	paths := make([]string, len(items))
	for n, obj := range items {
		paths[n] = keyOf(obj).path()
	}
	if slices.IsSorted(paths) {
		return items
	}
	order := make([]int, len(items))
	for n := range order {
		order[n] = n
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(paths[a], paths[b]) })
	sorted := make([]T, len(items))
	for n, at := range order {
		sorted[n] = items[at]
	}
	return sorted
}

// outcome is one change of the cache, and the object it replaced, if any. Without a type there was no change.
type outcome[T Object] struct {
	old   former[T]
	ended bool
	Change[T]
}

// put puts obj into the cache unless it holds that very state. The caller must hold the lock.
func (i *Informer[T]) put(obj T) outcome[T] {
	if was, ok := i.cache.objects[keyOf(obj)]; ok {
		version := obj.GetResourceVersion()
		if version != "" && version == was.GetResourceVersion() && obj.GetUID() == was.GetUID() {
			return outcome[T]{Change: Change[T]{Type: Modified, Old: was, Object: was, Same: true}}
		}
	}
	old, replaced := i.cache.put(obj)
	if !replaced {
		return outcome[T]{Change: Change[T]{Type: Added, Object: obj}}
	}
	return outcome[T]{old: old, ended: true, Change: Change[T]{Type: Modified, Old: old.obj, Object: obj}}
}

// tell calls the handlers.
func (i *Informer[T]) tell(n outcome[T]) {
	if n.Type == "" {
		return
	}
	if n.ended {
		i.check(n.old)
	}
	for _, s := range i.loop.handlers {
		if !n.Same || s.wantsSame() {
			s.deliver(n.Change)
		}
	}
}

// wantsSame reports whether the handler gets unchanged objects of a list.
func (s *subscription[T]) wantsSame() bool { return s.Changed != nil && s.again }

// reader lists and watches for one informer.
type reader[T Object] struct {
	source  Source[T]
	log     *slog.Logger
	onError func(error)
	out     chan<- change[T]
	delay   backoff
}

// run sends changes until the context ends.
func (r *reader[T]) run(ctx context.Context) {
	var version string
	listed := false
	for ctx.Err() == nil {
		if !listed {
			items, at, err := r.source.List(ctx)
			if err != nil {
				r.pause(ctx, "list", err)
				continue
			}
			if !r.send(ctx, change[T]{list: true, items: items, version: at}) {
				return
			}
			version = at
		}
		began := time.Now()
		at, err := r.follow(ctx, version)
		if at != version || time.Since(began) >= time.Second {
			r.delay.reset() // the source works: the watch ended regularly
		}
		version, listed = at, !errors.Is(err, ErrExpired)
		r.pause(ctx, "watch", err)
	}
}

// follow watches from version until the watch ends, and returns the version it has reached and why it ended.
func (r *reader[T]) follow(ctx context.Context, version string) (string, error) {
	stream, err := r.source.Watch(ctx, version)
	if err != nil {
		return version, err
	}
	defer stream.Close()
	for {
		events, err := stream.Next(ctx)
		if err != nil {
			return version, err
		}
		if len(events) == 0 || !r.send(ctx, change[T]{events: events}) {
			continue
		}
		version = events[len(events)-1].Version
	}
}

// send passes c on and reports whether it was taken before the context ended.
func (r *reader[T]) send(ctx context.Context, c change[T]) bool {
	select {
	case r.out <- c:
		return true
	case <-ctx.Done():
		return false
	}
}

// pause logs why an attempt ended and waits before the next one.
func (r *reader[T]) pause(ctx context.Context, doing string, err error) {
	if ctx.Err() != nil {
		return
	}
	ordinary := errors.Is(err, io.EOF) || errors.Is(err, ErrExpired)
	wait := r.delay.next(ordinary)
	if r.onError != nil && !errors.Is(err, io.EOF) {
		r.onError(&SourceError{Doing: doing, Retry: wait, Err: err})
	}
	if !ordinary {
		var kind T
		r.log.Warn("source failed", "doing", doing, "kind", kindName(kind), "err", err, "retry", wait)
	}
	if wait == 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// The bounds of the delay between attempts, upstream's for its reflector.
const (
	firstDelay = 800 * time.Millisecond
	maxDelay   = 30 * time.Second
)

// backoff counts attempts without progress.
type backoff struct{ attempts int }

func (b *backoff) reset() { b.attempts = 0 }

// next returns how long to wait. After a regular end the first attempt is made at once.
func (b *backoff) next(ordinary bool) time.Duration {
	if b.attempts == 0 {
		b.attempts = 1
		if ordinary {
			return 0
		}
	}
	wait := firstDelay
	for n := 1; n < b.attempts && wait < maxDelay; n++ {
		wait *= 2
	}
	b.attempts++
	return min(wait, maxDelay)
}
