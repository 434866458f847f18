package informer

import (
	"sync/atomic"
	"time"
)

// Handler is told about changes, by whichever of its functions are set. An object that was
// deleted and made again under the same name arrives as Deleted and Added. Objects are shared
// and must not be changed.
type Handler[T Object] struct {
	Added   func(obj T)
	Updated func(old, obj T)
	// Deleted gets the last state that is known, which is an older one when the deletion
	// happened while the informer could not watch.
	Deleted func(last T)
	// Changed, when set, is called instead of the three above, and told more: see Change.
	Changed func(Change[T])
	// Resync is how often the handler is told about every object in the cache again, as
	// Updated with the same object twice; 0 is never. It costs the source nothing.
	Resync time.Duration
	// Queue decides what happens while the handler is slow. With 0 the handler is called from
	// the informer's own goroutine: the cache and all other handlers wait for it, nothing
	// piles up, and a source that gets too far ahead has the informer list again. With more, it
	// has a goroutine of its own and holds up nobody: up to that many changes wait for it one
	// by one, and from there on the waiting changes of one object become one (an object that
	// came and went is left out), so that what waits is bounded by the number of objects.
	Queue int
}

// Change is one change of the cache, in full.
type Change[T Object] struct {
	// Type is Added, Modified or Deleted. An object which a list shows with another UID than
	// the cache knew is Modified.
	Type EventType
	// Old is the state before a modification.
	Old T
	// Object is the new state, or the last one that is known of a deleted object.
	Object T
	// Initial is set when an added object was there before: it was in the informer's first
	// list, or in the cache when the handler came.
	Initial bool
	// Missed is set when a deletion was not seen but found out by a list: Object is the last
	// state that was seen, not the last there was.
	Missed bool
	// Same is set when Old and Object are of one version: on a resync, or when the informer
	// had to list again and the object had not changed. Of the latter a handler with a Resync
	// is told only if it took part in the last resync of the informer, as in client-go.
	Same bool
}

// Registration is a handler's place in an informer.
type Registration struct {
	synced, done chan struct{}
	removed      atomic.Bool
	settle       func()
}

// Synced is closed when the handler has been told about all that was there: the informer's first
// list, or what the cache held when the handler came. It is never closed when the handler is
// removed, or the informer stops, before that.
func (r *Registration) Synced() <-chan struct{} { return r.synced }

// Remove takes the handler out. No call begins after it, other than one that is under way in
// another goroutine; wait for Done to have that one behind you. What waits in the handler's
// queue is dropped. It may be called repeatedly, and by the handler.
func (r *Registration) Remove() {
	r.removed.Store(true)
	r.settle()
}

// Done is closed when the handler will not be called again because it was removed or the
// informer has stopped.
func (r *Registration) Done() <-chan struct{} { return r.done }

// subscription is a handler at work.
type subscription[T Object] struct {
	Handler[T]
	*Registration
	// queue is nil for a handler that is called from the informer's goroutine; stop ends the
	// goroutine of one that is not.
	queue *queue[T]
	stop  chan struct{}
	// resyncAt is when the next resync is due.
	resyncAt time.Time
	// again says whether unchanged objects of a new list are told to a handler with Changed.
	again bool
}

// deliver calls the handler, or lets its own goroutine do so.
func (s *subscription[T]) deliver(c Change[T]) {
	switch {
	case s.removed.Load():
	case s.queue != nil:
		s.queue.add(c)
	default:
		s.call(c)
	}
}

// call tells the handler about one change.
func (s *subscription[T]) call(c Change[T]) {
	switch {
	case s.Changed != nil:
		s.Changed(c)
	case c.Type == Added:
		tell(s.Added, c.Object)
	case c.Type == Deleted:
		tell(s.Deleted, c.Object)
	case c.Old.GetUID() != c.Object.GetUID():
		tell(s.Deleted, c.Old)
		tell(s.Added, c.Object)
	case s.Updated != nil:
		s.Updated(c.Old, c.Object)
	}
}

func tell[T Object](f func(T), obj T) {
	if f != nil {
		f(obj)
	}
}

// greeted says that the handler has been told about what was there, or will be by its queue.
func (s *subscription[T]) greeted() {
	if s.queue != nil {
		s.queue.mark(s.synced)
		return
	}
	close(s.synced)
}
