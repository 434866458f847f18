package registry

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/keelson-dev/keelson/informer"
)

// batch bounds how many events one Next of a watch returns.
const batch = 256

// WatchEvent is one change as seen through a selection: an object that begins to match is Added, one that
// ceases to match is Deleted. Progress events carry only a Revision: all changes up to it have been delivered.
type WatchEvent struct {
	Type     informer.EventType
	Item     *Item
	Revision int64 // of the change
}

// Watch reads a resource's changes at its reader's pace, from the history that all watches share: it costs no
// goroutine and no buffer. It must be used by one goroutine at a time.
type Watch struct {
	resource  *Resource
	selection Selection
	next      int64 // sequence number in the table's log
	interest  term
	idle      idleWatch
}

// Watch returns the changes after revision; revision 0 starts now. It fails with ErrExpired when part of that
// history is gone.
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
		resource: r, selection: s, next: next, interest: interest(&r.Kind, s), idle: idleWatch{wake: make(chan struct{}, 1)},
	}, nil
}

// ListAndWatch returns the selected objects in key order, their revision, and the changes that follow.
func (r *Resource) ListAndWatch(ctx context.Context, s Selection, resourceVersion string) (*List, *Watch, error) {
	for {
		l, err := r.List(ctx, ListOptions{Selection: s, ResourceVersion: resourceVersion})
		if err != nil {
			return nil, nil, err
		}
		w, err := r.Watch(ctx, s, l.Revision)
		if errors.Is(err, ErrExpired) && ctx.Err() == nil {
			continue // overtaken by a full history's worth of writes: list again
		}
		return l, w, err
	}
}

// Next blocks until there are events. It fails with ErrExpired when the reader fell so far behind that changes
// are gone, with io.EOF when the kind was replaced or removed, and with the context's error when the context ends.
func (w *Watch) Next(ctx context.Context) ([]WatchEvent, error) { return w.NextBefore(ctx, nil) }

// NextBefore is Next that also returns, with nothing, when stop can be received from. It is for callers that
// wait long and would otherwise hold a context for each wait.
func (w *Watch) NextBefore(ctx context.Context, stop <-chan time.Time) ([]WatchEvent, error) {
	for {
		if events, err := w.take(ctx); len(events) > 0 || err != nil {
			return events, err
		}
		select {
		case <-w.idle.wake:
			w.next = w.idle.by
		case <-stop:
			w.endWait()
			return nil, nil
		case <-ctx.Done():
			w.endWait()
			return nil, ctx.Err()
		}
	}
}

// take returns the next events, or none and leaves the watch idle. A function of its own, so that its stack is
// free again while the watch waits.
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

// read takes the next changes from the log; if there are none, the watch becomes idle.
func (w *Watch) read(ctx context.Context) ([]change, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t := w.resource.table
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.ended {
		return nil, io.EOF
	}
	if w.next < t.log.base {
		return nil, w.resource.errorf(ErrExpired, "", "too old resource version: the watch fell behind the history that is kept")
	}
	n := min(t.log.end()-w.next, batch)
	if n == 0 {
		t.idle.add(&w.idle, w.interest)
		return nil, nil
	}
	changes := make([]change, n)
	for i := range changes {
		changes[i] = t.log.entry(w.next + int64(i))
	}
	w.next += n
	return changes, nil
}

// endWait ends the wait of a watch that was not woken. Changes made during the wait did not concern it.
func (w *Watch) endWait() {
	t := w.resource.table
	t.mu.RLock()
	defer t.mu.RUnlock()
	w.next = t.idle.remove(&w.idle, t.log.end())
}

// Progress returns a revision up to which Next has returned all changes, and whether Next has nothing more to
// return.
func (w *Watch) Progress() (revision int64, ok bool) {
	// The clock is read before the log: a later change may be in the log, an earlier one always is.
	revision = w.resource.registry.clock.read()
	t := w.resource.table
	t.mu.RLock()
	defer t.mu.RUnlock()
	return revision, w.next == t.log.end()
}

// see translates a change into an event as seen through the selection.
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
			// It ceased to match: send its last matching state under the new revision.
			e.Item = w.resource.departed(c)
		}
	default:
		return WatchEvent{}, false
	}
	return e, true
}
