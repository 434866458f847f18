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
	// Logger is told about failing lists, watches and index functions; nil discards.
	Logger *slog.Logger
	// ResyncPeriod is that of handlers which do not say one. With 0 there are no resyncs,
	// whatever handlers say; nor can those that come after the start have shorter ones than
	// all that came before.
	ResyncPeriod time.Duration
	// Indexers are there from the start. The index by namespace is not made of itself, as
	// nowhere in client-go's constructors, but it costs nothing here.
	Indexers cache.Indexers
	// Share says that the source's own objects are handed out, not copies. It saves memory and
	// is safe where the source hands out objects that nobody else has, as package wire does.
	// Transforms must not change the objects then, unless that is so.
	Share bool
	// Queue is how many changes wait one by one for a slow handler before those of one object
	// become one; 0 means 10,000. client-go's wait without bound.
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
	// check is the shortest period of a resync, below which none can be had after the start.
	check     time.Duration
	started   bool
	transform cache.TransformFunc
	onError   cache.WatchErrorHandlerWithContext
	running   context.Context // that of Run, for onError
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
	// The cache has objects of any type, since a transform may change it.
	made := informer.Convert(source, func(obj T) (informer.Object, error) { return a.admit(obj) }, func(_ T, err error) {
		a.log.Error("transform failed", "kind", a.kind, "err", err)
	})
	a.inner = informer.New(made, informer.Options{Logger: options.Logger, OnError: a.failed})
	a.store = newStore(a.inner, a.log, options.Indexers)
	return a
}

// admit makes of an object of the source the one for the cache.
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

// failed tells the handler of errors.
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

// checker is a cache.DoneChecker.
type checker struct {
	name string
	done <-chan struct{}
}

func (c checker) Name() string          { return c.name }
func (c checker) Done() <-chan struct{} { return c.done }

// LastSyncResourceVersion implements cache.SharedInformer: the version that the store has got to.
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
