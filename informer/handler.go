package informer

import (
	"sync/atomic"
	"time"
)

// Handler receives changes, by whichever of its functions are set. An object that was deleted and created again under
// the same name arrives as Deleted and Added. Objects are shared and must not be changed.
type Handler[T Object] struct {
	// Added gets a new object, or one that existed before the handler.
	Added func(obj T)
	// Updated gets the states before and after a change.
	Updated func(old, obj T)
	// Deleted gets the last known state: an older one if the deletion happened while the informer could not watch.
	Deleted func(last T)
	// Changed, when set, is called instead of the three above, with more details: see Change.
	Changed func(Change[T])
	// Resync is how often the handler gets every object in the cache again, as Updated with the same object twice; 0 is
	// never. It costs the source nothing.
	Resync time.Duration
	// Queue decides what happens while the handler is slow. With 0 the handler is called from the informer's own
	// goroutine: the cache and all other handlers wait for it, nothing is queued, and if the source gets too far ahead
	// the informer lists again. Otherwise the handler has a goroutine of its own and delays no other: up to that many
	// changes wait for it separately; beyond that, the waiting changes of one object are merged (an object that was
	// added and deleted is dropped), so the queue is bounded by the number of objects.
	Queue int
}

// Change is one change of the cache, with details.
type Change[T Object] struct {
	// Type is Added, Modified or Deleted. An object that a list shows with another UID than the cached one is Modified.
	Type EventType
	// Old is the state before a modification.
	Old T
	// Object is the new state, or the last known state of a deleted object.
	Object T
	// Initial is set if an added object existed before: in the informer's first list, or in the cache when the handler
	// was added.
	Initial bool
	// Missed is set if a deletion was not watched but found by a list: Object is then the last state seen, which may
	// not be the final one.
	Missed bool
	// Same is set if Old and Object have the same version: on a resync, or when the informer listed again and the
	// object had not changed. In the latter case, a handler with a Resync is called only if it took part in the
	// informer's last resync, as in client-go.
	Same bool
}

// Registration is a handler's registration with an informer.
type Registration struct {
	synced, done chan struct{}
	removed      atomic.Bool
	settle       func()
}

// Synced is closed when the handler has received all existing objects: the informer's first list, or what the cache
// held when the handler was added. It is never closed if the handler is removed, or the informer stops, before that.
func (r *Registration) Synced() <-chan struct{} { return r.synced }

// Remove removes the handler. No call begins after it, but one may still be under way in another goroutine: wait for
// Done to be sure that it has returned. Changes in the handler's queue are dropped. Remove may be called repeatedly,
// and by the handler.
func (r *Registration) Remove() {
	r.removed.Store(true)
	r.settle()
}

// Done is closed when the handler will not be called again, because it was removed or the informer has stopped.
func (r *Registration) Done() <-chan struct{} { return r.done }

// subscription is a registered handler.
type subscription[T Object] struct {
	Handler[T]
	*Registration
	// queue is nil for a handler that is called from the informer's goroutine; stop ends the handler's own goroutine
	// otherwise.
	queue *queue[T]
	stop  chan struct{}
	// resyncAt is when the next resync is due.
	resyncAt time.Time
	// again says whether a handler with Changed gets the unchanged objects of a new list.
	again bool
}

// deliver calls the handler, or queues the change for its own goroutine.
func (s *subscription[T]) deliver(c Change[T]) {
	switch {
	case s.removed.Load():
	case s.queue != nil:
		s.queue.add(c)
	default:
		s.call(c)
	}
}

// call passes one change to the handler.
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

// replayed says that the handler has received the existing objects, or has them in its queue.
func (s *subscription[T]) replayed() {
	if s.queue != nil {
		s.queue.mark(s.synced)
		return
	}
	close(s.synced)
}
