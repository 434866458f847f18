package informer

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Errors of an Informer; test for them with errors.Is.
var (
	// ErrStarted: Run was called before.
	ErrStarted = errors.New("informer was already run")
	// ErrStopped: Run has returned, so the awaited state will not come.
	ErrStopped = errors.New("informer has stopped")
)

// Options of an Informer. The zero value is ready to use.
type Options struct {
	// Logger logs failing lists and watches; nil discards.
	Logger *slog.Logger
	// DetectMutations, when set, makes the informer keep a deep copy of each object and compare it when the object is
	// replaced or removed and when Run ends. It is called, from the informer's goroutine, for each shared object that
	// was changed, with an error that names the object and the fields. It costs memory and time and is meant for tests.
	DetectMutations func(error)
	// OnError is called, from a goroutine of the informer, with a *SourceError for each failed list and watch; a watch
	// that ended regularly is not a failure. It is for information: the informer retries regardless.
	OnError func(error)
}

// SourceError says that a Source failed.
type SourceError struct {
	// Doing is "list" or "watch".
	Doing string
	// Retry is how long the informer waits before it tries again.
	Retry time.Duration
	Err   error
}

// Error implements error.
func (e *SourceError) Error() string { return e.Doing + ": " + e.Err.Error() }

// Unwrap returns the Source's error.
func (e *SourceError) Unwrap() error { return e.Err }

// Informer is a read cache of the objects of one Source. Make one with New.
type Informer[T Object] struct {
	source  Source[T]
	log     *slog.Logger
	detect  func(error)
	onError func(error)

	mu      sync.RWMutex // guards the two below
	cache   *cache[T]
	version string

	handlers subscriptions[T]

	wake   chan struct{} // holds one token while there may be handlers to replay to or to end
	loop   loop[T]       // used only by the goroutine in Run
	synced chan struct{}
	// stopped is closed when Run has returned, or is about to.
	stopped chan struct{}
	started atomic.Bool
}

// subscriptions are an informer's handlers.
type subscriptions[T Object] struct {
	mu      sync.Mutex // guards all below
	running bool
	ended   bool
	all     []*subscription[T] // those that are neither removed nor stopped
	pending []*subscription[T] // those of all that have not received the existing objects
}

// New makes an informer. It does nothing until Run.
func New[T Object](source Source[T], options Options) *Informer[T] {
	log := options.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Informer[T]{
		source: source, log: log, detect: options.DetectMutations, onError: options.OnError,
		cache:   newCache[T](options.DetectMutations != nil),
		wake:    make(chan struct{}, 1),
		synced:  make(chan struct{}),
		stopped: make(chan struct{}),
	}
}

// AddIndex makes objects findable by ByIndex under the values that a pure function computes from them. An existing name
// is left alone. Call it before Run: later is allowed, but indexes every object under a lock.
func (i *Informer[T]) AddIndex(name string, values func(T) []string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.cache.addIndex(name, values)
}

// AddHandler registers a handler, at any time. The handler receives the objects already in the cache, as Added and in
// key order, and then every change, without gap or duplicate. It is called from the informer's goroutine or its own
// (see Handler.Queue), never from within AddHandler. A handler added after Run has returned is never called.
func (i *Informer[T]) AddHandler(h Handler[T]) *Registration {
	s := &subscription[T]{
		Handler:      h,
		Registration: &Registration{synced: make(chan struct{}), done: make(chan struct{})},
		again:        true,
	}
	if h.Queue > 0 {
		s.queue, s.stop = newQueue[T](h.Queue), make(chan struct{})
	}
	s.settle = func() { i.remove(s) }
	i.handlers.mu.Lock()
	if i.handlers.ended {
		close(s.done)
	} else {
		i.handlers.all, i.handlers.pending = append(i.handlers.all, s), append(i.handlers.pending, s)
	}
	i.handlers.mu.Unlock()
	i.poke()
	return s.Registration
}

// poke makes the loop check its handlers.
func (i *Informer[T]) poke() {
	select {
	case i.wake <- struct{}{}:
	default:
	}
}

// remove ends a removed handler, or makes the loop do so, which may be calling it.
func (i *Informer[T]) remove(s *subscription[T]) {
	i.handlers.mu.Lock()
	defer i.handlers.mu.Unlock()
	if i.handlers.running {
		i.poke()
		return
	}
	if at := slices.Index(i.handlers.all, s); at >= 0 {
		i.handlers.all = slices.Delete(i.handlers.all, at, at+1)
		i.handlers.pending = slices.DeleteFunc(i.handlers.pending, func(p *subscription[T]) bool { return p == s })
		close(s.done)
	}
}

// WaitSynced blocks until the first list is in the cache and every handler added before the call has received the
// existing objects. It fails with the context's error, or with ErrStopped if Run returned before.
func (i *Informer[T]) WaitSynced(ctx context.Context) error {
	if err := i.wait(ctx, i.synced, nil); err != nil {
		return err
	}
	i.handlers.mu.Lock()
	subs := slices.Clone(i.handlers.all)
	i.handlers.mu.Unlock()
	for _, s := range subs {
		if err := i.wait(ctx, s.synced, s.done); err != nil && !s.removed.Load() {
			return err
		}
	}
	return nil
}

// wait blocks until done is closed.
func (i *Informer[T]) wait(ctx context.Context, done, gone <-chan struct{}) error {
	select {
	case <-done:
		return nil
	default:
	}
	select {
	case <-done:
		return nil
	case <-gone:
		return ErrStopped
	case <-i.stopped:
		return ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Synced is closed when the first list is in the cache and the handlers that are called from the informer's goroutine
// have received it.
func (i *Informer[T]) Synced() <-chan struct{} { return i.synced }

// Started reports whether Run was called.
func (i *Informer[T]) Started() bool { return i.started.Load() }

// IsStopped reports whether Run has returned, or is about to.
func (i *Informer[T]) IsStopped() bool {
	select {
	case <-i.stopped:
		return true
	default:
		return false
	}
}

// LastVersion returns the resource version that the cache has reached by lists, changes and bookmarks; "" before the
// first list.
func (i *Informer[T]) LastVersion() string {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.version
}

// Get returns the cached object. Cluster-scoped objects have no namespace.
func (i *Informer[T]) Get(namespace, name string) (T, bool) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	obj, ok := i.cache.objects[key{namespace, name}]
	return obj, ok
}

// List returns the cached objects of a namespace, or of all when it is empty, in key order.
// The slice is the caller's.
func (i *Informer[T]) List(namespace string) []T {
	i.mu.RLock()
	defer i.mu.RUnlock()
	if namespace == "" {
		return i.cache.all.objects()
	}
	return i.cache.namespaces[namespace].objects()
}

// ByIndex returns the cached objects that the named index has under value, in key order; none if there is no such
// index. The slice is the caller's.
func (i *Informer[T]) ByIndex(name, value string) []T {
	i.mu.RLock()
	defer i.mu.RUnlock()
	if x := i.cache.index(name); x != nil {
		return x.lists[value].objects()
	}
	return nil
}

// ByIndexIn returns those of ByIndex that are in a namespace, or all if it is empty. The slice is the caller's.
func (i *Informer[T]) ByIndexIn(name, value, namespace string) []T {
	if namespace == "" {
		return i.ByIndex(name, value)
	}
	i.mu.RLock()
	defer i.mu.RUnlock()
	if x := i.cache.index(name); x != nil {
		return x.lists[value].in(namespace)
	}
	return nil
}

// Indexed reports whether there is an index of that name.
func (i *Informer[T]) Indexed(name string) bool {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.cache.index(name) != nil
}

// IndexValues returns the values under which the named index has objects, in no order. The
// slice is the caller's.
func (i *Informer[T]) IndexValues(name string) []string {
	i.mu.RLock()
	defer i.mu.RUnlock()
	x := i.cache.index(name)
	if x == nil {
		return nil
	}
	return slices.Collect(maps.Keys(x.lists))
}

// Namespaces returns the namespaces that have objects, in no order. The slice is the caller's.
func (i *Informer[T]) Namespaces() []string {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return slices.Collect(maps.Keys(i.cache.namespaces))
}

// Put puts an object into the cache without the source, and calls no handler: for tests that fill an informer without
// running it.
func (i *Informer[T]) Put(obj T) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.cache.put(obj)
	i.version = obj.GetResourceVersion()
}

// Drop removes an object added by Put.
func (i *Informer[T]) Drop(namespace, name string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.cache.remove(key{namespace, name})
}
