package informer

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"
)

// change is what the reading goroutine passes to the one that keeps the cache.
type change[T Object] struct {
	// list says that items are all there is; otherwise events are what happened.
	list   bool
	items  []T
	events []Event[T]
}

// Run keeps the cache up to date and calls the handlers until the context ends. It returns nil
// then, with its goroutines gone, and the cache stays readable as it was. A second call fails
// with ErrStarted.
func (i *Informer[T]) Run(ctx context.Context) error {
	if !i.started.CompareAndSwap(false, true) {
		return ErrStarted
	}
	defer close(i.stopped)
	ctx, cancel := context.WithCancel(ctx)
	changes, done := make(chan change[T]), make(chan struct{})
	go func() {
		defer close(done)
		r := reader[T]{source: i.source, log: i.log, out: changes}
		r.run(ctx)
	}()
	defer func() { cancel(); <-done }()
	for {
		select {
		case <-ctx.Done():
			i.checkAll()
			return nil
		case <-i.wake:
			i.greet()
		case c := <-changes:
			i.greet()
			i.take(c)
		}
	}
}

// greet tells new handlers what is in the cache.
func (i *Informer[T]) greet() {
	for {
		i.pendingMu.Lock()
		if len(i.pending) == 0 {
			i.pendingMu.Unlock()
			return
		}
		s := i.pending[0]
		i.pendingMu.Unlock()
		if s.Added != nil {
			for _, obj := range i.List("") {
				s.Added(obj)
			}
		}
		i.handlers = append(i.handlers, s)
		i.pendingMu.Lock()
		i.pending = i.pending[1:]
		i.pendingMu.Unlock()
		close(s.told)
	}
}

// take brings the cache up to date and tells the handlers.
func (i *Informer[T]) take(c change[T]) {
	if c.list {
		i.replace(c.items)
		select {
		case <-i.synced:
		default:
			close(i.synced)
		}
		return
	}
	for _, e := range c.events {
		switch e.Type {
		case Added, Modified:
			i.mu.Lock()
			n, changed := i.put(e.Object)
			i.mu.Unlock()
			if changed {
				i.tell(n)
			}
		case Deleted:
			i.mu.Lock()
			old := i.cache.remove(keyOf(e.Object))
			i.mu.Unlock()
			if old != nil {
				i.tell(news[T]{old: old, last: e.Object})
			}
		}
	}
}

// replace makes items the whole content of the cache and tells the handlers the difference:
// first what is gone, then what is new or different, each in key order.
func (i *Informer[T]) replace(items []T) {
	there := make(map[key]bool, len(items))
	for _, obj := range items {
		there[keyOf(obj)] = true
	}
	var all []news[T]
	i.mu.Lock()
	for _, obj := range i.cache.all.objects() {
		if k := keyOf(obj); !there[k] {
			all = append(all, news[T]{old: i.cache.remove(k), last: obj})
		}
	}
	for _, obj := range inKeyOrder(items) {
		if n, changed := i.put(obj); changed {
			all = append(all, n)
		}
	}
	i.mu.Unlock()
	for _, n := range all {
		i.tell(n)
	}
}

// inKeyOrder returns items as they are if they are in order, as lists of servers are, or else a
// sorted copy.
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

// news is one change of the cache: an addition has no old entry, a deletion no new object.
type news[T Object] struct {
	old     *entry[T]
	obj     T
	present bool
	last    T
}

// put takes obj into the cache unless that very state is there already. The caller locks.
func (i *Informer[T]) put(obj T) (n news[T], changed bool) {
	if e, ok := i.cache.entries[keyOf(obj)]; ok {
		version := obj.GetResourceVersion()
		if version != "" && version == e.obj.GetResourceVersion() && obj.GetUID() == e.obj.GetUID() {
			return news[T]{}, false
		}
	}
	n = news[T]{old: i.cache.put(obj), obj: obj, present: true}
	if n.old != nil {
		n.last = n.old.obj
	}
	return n, true
}

// tell calls the handlers.
func (i *Informer[T]) tell(n news[T]) {
	if n.old != nil {
		i.check(n.old)
	}
	replaced := n.old != nil && n.present && n.old.obj.GetUID() != n.obj.GetUID()
	for _, h := range i.handlers {
		if n.old != nil && n.present && !replaced {
			if h.Updated != nil {
				h.Updated(n.old.obj, n.obj)
			}
			continue
		}
		if n.old != nil && h.Deleted != nil {
			h.Deleted(n.last)
		}
		if n.present && h.Added != nil {
			h.Added(n.obj)
		}
	}
}

// reader lists and watches for one informer.
type reader[T Object] struct {
	source Source[T]
	log    *slog.Logger
	out    chan<- change[T]
	delay  backoff
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
			if !r.send(ctx, change[T]{list: true, items: items}) {
				return
			}
			version = at
		}
		began := time.Now()
		at, err := r.follow(ctx, version)
		if at != version || time.Since(began) >= time.Second {
			r.delay.reset() // the source works: what ended the watch is in the ordinary
		}
		version, listed = at, !errors.Is(err, ErrExpired)
		r.pause(ctx, "watch", err)
	}
}

// follow watches from version until the watch ends, and returns the version it got to and why
// it ended.
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

// send passes c on and tells whether it was taken before the context ended.
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

// next returns how long to wait. After an ordinary end the first new attempt is made at once.
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
