package registry

import (
	"context"
	"errors"
	"time"

	"github.com/keelson-dev/keelson/informer"
)

// batch bounds how many events one Next of a watch returns.
const batch = 256

// WatchEvent is one change as seen through a selection: an object that begins to match is
// Added, one that ceases to match is Deleted. Progress events carry only a Revision: everything
// up to it has been told.
type WatchEvent struct {
	Type     informer.EventType
	Item     *Item
	Revision int64
}

// Watch reads a resource's changes at its reader's pace, from the history that all watches
// share: it costs no goroutine and no buffer. It is used by one goroutine at a time.
type Watch struct {
	resource  *Resource
	selection Selection
	next      int64 // sequence number in the table's log
	bed       term
	sleeper   sleeper
}

// Watch returns the changes after revision; revision 0 is from now on. It fails with ErrExpired
// when part of that history is gone.
func (r *Resource) Watch(ctx context.Context, s Selection, revision int64) (*Watch, error) {
	// The client may have seen a revision that this cache has yet to reach, or never will.
	if err := r.await(ctx, revision); err != nil {
		return nil, err
	}
	t := r.table
	t.mu.RLock()
	next, ok := t.log.end(), true
	if revision > 0 {
		next, ok = t.log.since(revision)
	}
	t.mu.RUnlock()
	if !ok {
		return nil, r.expired(revision)
	}
	return &Watch{
		resource: r, selection: s, next: next, bed: bed(&r.Kind, s), sleeper: sleeper{wake: make(chan struct{}, 1)},
	}, nil
}

// ListAndWatch returns the selected objects as they are now, in key order, their revision, and
// the changes that follow.
func (r *Resource) ListAndWatch(ctx context.Context, s Selection, resourceVersion string) (*List, *Watch, error) {
	for {
		l, err := r.List(ctx, ListOptions{Selection: s, ResourceVersion: resourceVersion})
		if err != nil {
			return nil, nil, err
		}
		w, err := r.Watch(ctx, s, l.Revision)
		if errors.Is(err, ErrExpired) && ctx.Err() == nil {
			continue // overtaken by a full history's worth of writes: look again
		}
		return l, w, err
	}
}

// Next blocks until there is something to tell. It fails with ErrExpired when the reader fell
// so far behind that changes are gone, with the context's error when that ends.
func (w *Watch) Next(ctx context.Context) ([]WatchEvent, error) { return w.NextBefore(ctx, nil) }

// NextBefore is Next that also ends, with nothing, when something can be received from stop. It is for who waits
// for long and would hold a context of its own for each wait.
func (w *Watch) NextBefore(ctx context.Context, stop <-chan time.Time) ([]WatchEvent, error) {
	for {
		if events, err := w.take(ctx); len(events) > 0 || err != nil {
			return events, err
		}
		select {
		case <-w.sleeper.wake:
			w.next = w.sleeper.by
		case <-stop:
			w.rise()
			return nil, nil
		case <-ctx.Done():
			w.rise()
			return nil, ctx.Err()
		}
	}
}

// take returns the next events, or none and leaves the watch asleep. What it takes of the stack is free again when
// the watch waits.
//
//go:noinline
func (w *Watch) take(ctx context.Context) ([]WatchEvent, error) {
	for {
		changes, err := w.read(ctx)
		if changes == nil || err != nil {
			return nil, err
		}
		var events []WatchEvent
		for _, c := range changes {
			if e, ok := w.see(c); ok {
				events = append(events, e)
			}
		}
		if len(events) > 0 {
			return events, nil
		}
	}
}

// read takes the next changes from the log; where there are none the watch is asleep.
func (w *Watch) read(ctx context.Context) ([]change, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t := w.resource.table
	t.mu.RLock()
	defer t.mu.RUnlock()
	if w.next < t.log.base {
		return nil, w.resource.errorf(ErrExpired, "", "too old resource version: the watch fell behind the history that is kept")
	}
	n := min(t.log.end()-w.next, batch)
	if n == 0 {
		t.sleepers.add(&w.sleeper, w.bed)
		return nil, nil
	}
	changes := make([]change, n)
	for i := range changes {
		changes[i] = t.log.entry(w.next + int64(i))
	}
	w.next += n
	return changes, nil
}

// rise ends the sleep of a watch that goes on to something else. What was written since it fell
// asleep and did not wake it does not concern it.
func (w *Watch) rise() {
	t := w.resource.table
	t.mu.RLock()
	defer t.mu.RUnlock()
	w.next = t.sleepers.rise(&w.sleeper, t.log.end())
}

// Progress returns a revision up to which everything has been told by Next, provided that Next
// has nothing more to tell.
func (w *Watch) Progress() (revision int64, ok bool) {
	// The clock is read before the log: a change after it may be in the log, never before it.
	revision = w.resource.registry.clock.read()
	t := w.resource.table
	t.mu.RLock()
	defer t.mu.RUnlock()
	return revision, w.next == t.log.end()
}

// see turns a change into what it is through the selection.
func (w *Watch) see(c change) (WatchEvent, bool) {
	kind := &w.resource.Kind
	e := WatchEvent{Item: c.item, Revision: c.item.Revision}
	was := c.prev != nil && w.selection.matches(kind, c.prev)
	is := !c.deleted && w.selection.matches(kind, c.item)
	switch {
	case is && was:
		e.Type = informer.Modified
	case is:
		e.Type = informer.Added
	case was:
		e.Type = informer.Deleted
		if !c.deleted {
			// It ceased to match: tell its last matching state under the new revision.
			e.Item = w.resource.departed(c)
		}
	default:
		return WatchEvent{}, false
	}
	return e, true
}
