package informer

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
)

// Errors of an Informer; test for them with errors.Is.
var (
	// ErrStarted: Run was called before.
	ErrStarted = errors.New("informer was already run")
	// ErrStopped: Run has returned, so what was waited for will not come.
	ErrStopped = errors.New("informer has stopped")
)

// Options of an Informer. The zero value is ready to use.
type Options struct {
	// Logger is told about failing lists and watches; nil discards.
	Logger *slog.Logger
	// DetectMutations, when set, makes the informer keep a deep copy of each object and compare
	// when the object is replaced or removed and when Run ends. It is called, from the
	// informer's goroutine, for each object that somebody changed although it was shared, with
	// an error that names the object and the fields. It costs memory and time: for tests.
	DetectMutations func(error)
}

// Handler is told about changes, by whichever of its functions are set. An object that was
// deleted and made again under the same name arrives as Deleted and Added. Objects are shared
// and must not be changed.
type Handler[T Object] struct {
	Added   func(obj T)
	Updated func(old, obj T)
	// Deleted gets the last state that is known, which is an older one when the deletion
	// happened while the informer could not watch.
	Deleted func(last T)
}

// Informer is a read cache of the objects of one Source. Make one with New.
type Informer[T Object] struct {
	source Source[T]
	log    *slog.Logger
	detect func(error)

	mu    sync.RWMutex // guards cache
	cache *cache[T]

	pendingMu sync.Mutex
	pending   []*subscription[T]
	wake      chan struct{}      // holds one token while there may be something pending
	handlers  []*subscription[T] // of the goroutine in Run alone

	started atomic.Bool
	synced  chan struct{}
	stopped chan struct{}
}

// subscription is a handler and whether it has been told what was there when it came.
type subscription[T Object] struct {
	Handler[T]
	told chan struct{}
}

// New makes an informer. It does nothing until Run.
func New[T Object](source Source[T], options Options) *Informer[T] {
	log := options.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Informer[T]{
		source: source, log: log, detect: options.DetectMutations,
		cache:   newCache[T](options.DetectMutations != nil),
		wake:    make(chan struct{}, 1),
		synced:  make(chan struct{}),
		stopped: make(chan struct{}),
	}
}

// AddIndex makes objects findable by ByIndex under the values that a function computes from
// them. A name that is there already is left as it is. The function must be pure. Call it
// before Run: later is allowed, but files every object under a lock.
func (i *Informer[T]) AddIndex(name string, values func(T) []string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.cache.addIndex(name, values)
}

// AddHandler registers a handler, at any time. It is told about the objects that are in the
// cache by then, as Added and in key order, and from there on about every change, without gap
// or duplicate. It is called from the informer's goroutine only, never from within AddHandler.
func (i *Informer[T]) AddHandler(h Handler[T]) {
	i.pendingMu.Lock()
	i.pending = append(i.pending, &subscription[T]{Handler: h, told: make(chan struct{})})
	i.pendingMu.Unlock()
	select {
	case i.wake <- struct{}{}:
	default:
	}
}

// WaitSynced blocks until the first list is in the cache and every handler added before the
// call has been told about what was there. It fails with the context's error, or with
// ErrStopped when Run returned before.
func (i *Informer[T]) WaitSynced(ctx context.Context) error {
	if err := i.wait(ctx, i.synced); err != nil {
		return err
	}
	i.pendingMu.Lock()
	pending := append([]*subscription[T](nil), i.pending...)
	i.pendingMu.Unlock()
	for _, s := range pending {
		if err := i.wait(ctx, s.told); err != nil {
			return err
		}
	}
	return nil
}

// wait blocks until done is closed.
func (i *Informer[T]) wait(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	default:
	}
	select {
	case <-done:
		return nil
	case <-i.stopped:
		return ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Get returns the cached object. Cluster-scoped objects have no namespace.
func (i *Informer[T]) Get(namespace, name string) (T, bool) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	if e, ok := i.cache.entries[key{namespace, name}]; ok {
		return e.obj, true
	}
	var none T
	return none, false
}

// List returns the cached objects of a namespace, or of all when it is empty, in key order.
// The slice is the caller's.
func (i *Informer[T]) List(namespace string) []T {
	i.mu.RLock()
	defer i.mu.RUnlock()
	if namespace == "" {
		return i.cache.all.objects()
	}
	return i.cache.indexes[0].lists[namespace].objects()
}

// ByIndex returns the cached objects that the named index has under value, in key order. An
// index that was not added has none. The slice is the caller's.
func (i *Informer[T]) ByIndex(name, value string) []T {
	i.mu.RLock()
	defer i.mu.RUnlock()
	if x := i.cache.index(name); x != nil && name != "" {
		return x.lists[value].objects()
	}
	return nil
}
