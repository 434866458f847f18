package clientgo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"

	"github.com/keelson-dev/keelson/informer"
)

// Options of an Informer. The zero value is ready to use.
type Options struct {
	// Logger logs failing lists, watches and index functions; nil discards.
	Logger *slog.Logger
	// ResyncPeriod is the default of handlers. With 0 there are no resyncs, whatever handlers ask for. Handlers added
	// after the start cannot have a shorter period than all earlier ones.
	ResyncPeriod time.Duration
	// Indexers exist from the start. As in client-go's constructors, the index by namespace is not added automatically;
	// here it costs nothing.
	Indexers cache.Indexers
	// Share makes the informer return the source's own objects instead of copies. It saves memory, and is safe if the
	// source returns objects that are not shared with others, as package wire does. Otherwise, transforms must not
	// change the objects.
	Share bool
	// Queue is how many changes wait separately for a slow handler before those of one object are merged; 0 means
	// 10,000. client-go's queue is unbounded.
	Queue int
}

// Informer is a cache.SharedIndexInformer. Make one with New.
type Informer struct {
	inner  *informer.Informer[informer.Object]
	store  *store
	log    *slog.Logger
	kind   string
	queue  int
	resync time.Duration
	share  bool

	mu sync.Mutex // guards what is below
	// check is the shortest resync period; after the start there can be no shorter one.
	check     time.Duration
	started   bool
	transform cache.TransformFunc
	onError   cache.WatchErrorHandlerWithContext
	running   context.Context // Run's context, for onError
}

var _ cache.SharedIndexInformer = (*Informer)(nil)

// New makes an informer of source. It does nothing until Run.
func New[T informer.Object](source informer.Source[T], options Options) *Informer {
	var example T
	a := &Informer{
		log: options.Logger, kind: fmt.Sprintf("%T", example),
		queue: options.Queue, share: options.Share,
		resync: options.ResyncPeriod, check: options.ResyncPeriod,
	}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	if a.queue <= 0 {
		a.queue = 10_000
	}
	// The cache holds objects of any type, since a transform may change it.
	made := informer.Convert(source, func(obj T) (informer.Object, error) { return a.admit(obj) }, func(_ T, err error) {
		a.log.Error("transform failed", "kind", a.kind, "err", err)
	})
	a.inner = informer.New(made, informer.Options{Logger: options.Logger, OnError: a.failed})
	a.store = newStore(a.inner, a.log, options.Indexers)
	return a
}

// admit returns the object to cache for an object of the source.
func (a *Informer) admit(obj informer.Object) (informer.Object, error) {
	if !a.share {
		obj = obj.DeepCopyObject().(informer.Object)
	}
	a.mu.Lock()
	transform := a.transform
	a.mu.Unlock()
	if transform == nil {
		return obj, nil
	}
	made, err := transform(obj)
	if err != nil {
		return nil, err
	}
	out, ok := made.(informer.Object)
	if !ok {
		return nil, fmt.Errorf("transform made a %T, which is no API object", made)
	}
	return out, nil
}

// failed calls the error handler.
func (a *Informer) failed(err error) {
	a.mu.Lock()
	handler, ctx := a.onError, a.running
	a.mu.Unlock()
	if handler == nil {
		return
	}
	var failure *informer.SourceError
	if errors.As(err, &failure) {
		err = failure.Err
		if failure.Doing == "list" {
			err = fmt.Errorf("failed to list %s: %w", a.kind, err)
		}
	}
	r := cache.NewReflectorWithOptions(&cache.ListWatch{}, nil, nil, cache.ReflectorOptions{Name: "keelson", TypeDescription: a.kind})
	handler(ctx, r, err)
}

// Run implements cache.SharedInformer.
func (a *Informer) Run(stop <-chan struct{}) { a.RunWithContext(wait.ContextForChannel(stop)) }

// RunWithContext implements cache.SharedInformer.
func (a *Informer) RunWithContext(ctx context.Context) {
	a.mu.Lock()
	a.started, a.running = true, ctx
	a.mu.Unlock()
	if err := a.inner.Run(ctx); err != nil {
		a.log.Warn("an informer is not run more than once", "kind", a.kind, "err", err)
	}
}

// HasSynced implements cache.SharedInformer.
func (a *Informer) HasSynced() bool { return cache.IsDone(a.HasSyncedChecker()) }

// HasSyncedChecker implements cache.SharedInformer.
func (a *Informer) HasSyncedChecker() cache.DoneChecker {
	return checker{name: "SharedIndexInformer " + a.kind, done: a.inner.Synced()}
}

// checker implements cache.DoneChecker.
type checker struct {
	name string
	done <-chan struct{}
}

func (c checker) Name() string          { return c.name }
func (c checker) Done() <-chan struct{} { return c.done }

// LastSyncResourceVersion implements cache.SharedInformer: the version that the store has reached.
func (a *Informer) LastSyncResourceVersion() string { return a.inner.LastVersion() }

// IsStopped implements cache.SharedInformer.
func (a *Informer) IsStopped() bool { return a.inner.IsStopped() }

var errStarted = errors.New("informer has already started")

// SetTransform implements cache.SharedInformer.
func (a *Informer) SetTransform(transform cache.TransformFunc) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.started {
		return errStarted
	}
	a.transform = transform
	return nil
}

// SetWatchErrorHandler implements cache.SharedInformer.
func (a *Informer) SetWatchErrorHandler(handler cache.WatchErrorHandler) error {
	return a.SetWatchErrorHandlerWithContext(func(_ context.Context, r *cache.Reflector, err error) { handler(r, err) })
}

// SetWatchErrorHandlerWithContext implements cache.SharedInformer.
func (a *Informer) SetWatchErrorHandlerWithContext(handler cache.WatchErrorHandlerWithContext) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.started {
		return errStarted
	}
	a.onError = handler
	return nil
}

// GetStore implements cache.SharedInformer.
func (a *Informer) GetStore() cache.Store { return a.store }

// GetIndexer implements cache.SharedIndexInformer.
func (a *Informer) GetIndexer() cache.Indexer { return a.store }

// AddIndexers implements cache.SharedIndexInformer.
func (a *Informer) AddIndexers(indexers cache.Indexers) error {
	if a.IsStopped() {
		return errors.New("indexer was not added because it has stopped already")
	}
	return a.store.AddIndexers(indexers)
}

// GetController implements cache.SharedInformer: its Run does nothing, as in client-go.
func (a *Informer) GetController() cache.Controller { return controller{a} }

type controller struct{ *Informer }

func (controller) Run(<-chan struct{})            {}
func (controller) RunWithContext(context.Context) {}
