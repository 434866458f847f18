package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/clientgo"
)

// ErrStarted: Start was called before.
var ErrStarted = errors.New("Informer already started") //nolint:staticcheck // controller-runtime's words

// Opener makes the source of a kind.
type Opener interface {
	// Open returns a source of the objects of a kind, and whether they are namespaced. The objects may be of any type:
	// a Cache converts them into the requested form.
	Open(gvk schema.GroupVersionKind) (source informer.Source[informer.Object], namespaced bool, err error)
}

// OpenerFunc is a function as an Opener.
type OpenerFunc func(gvk schema.GroupVersionKind) (informer.Source[informer.Object], bool, error)

// Open calls f.
func (f OpenerFunc) Open(gvk schema.GroupVersionKind) (informer.Source[informer.Object], bool, error) {
	return f(gvk)
}

// Options of a Cache; the zero value is ready to use.
type Options struct {
	// ReaderFailOnMissingInformer makes reads of kinds without an informer fail; otherwise they start one.
	ReaderFailOnMissingInformer bool
	// UnsafeDisableDeepCopy makes all reads return the cached objects.
	UnsafeDisableDeepCopy bool
	// Informers are the options of each kind's informer. A ResyncPeriod of 0 means controller-runtime's
	// 10 hours.
	Informers clientgo.Options
}

// defaultSyncPeriod is controller-runtime's.
const defaultSyncPeriod = 10 * time.Hour

// Cache implements cache.Cache. Make one with New.
type Cache struct {
	scheme  *runtime.Scheme
	opener  Opener
	options Options

	mu      sync.Mutex
	kinds   map[form]*kind
	begun   bool
	started chan struct{} // closed by Start
	wake    chan struct{} // holds one token while there may be an informer to start
}

var _ cache.Cache = (*Cache)(nil)

// form is a kind as an object of one type.
type form struct {
	schema.GroupVersionKind
	as shape
}

// shape is the type in which objects are read.
type shape int

const (
	structured shape = iota
	dynamic
	metadata
)

func shapeOf(obj runtime.Object) shape {
	switch obj.(type) {
	case runtime.Unstructured:
		return dynamic
	case *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList:
		return metadata
	}
	return structured
}

// kind is the informer of one form of a kind.
type kind struct {
	*clientgo.Informer
	reader  reader
	removed chan struct{} // closed by RemoveInformer
	running bool
}

// New returns a cache of the kinds that opener can open. It starts nothing.
func New(scheme *runtime.Scheme, opener Opener, options Options) *Cache {
	if options.Informers.ResyncPeriod == 0 {
		options.Informers.ResyncPeriod = defaultSyncPeriod
	}
	return &Cache{
		scheme: scheme, opener: opener, options: options, kinds: map[form]*kind{},
		started: make(chan struct{}), wake: make(chan struct{}, 1),
	}
}

// Start implements cache.Informers: it runs the informers until ctx ends.
func (c *Cache) Start(ctx context.Context) error {
	c.mu.Lock()
	if c.begun {
		c.mu.Unlock()
		return ErrStarted
	}
	c.begun = true
	c.mu.Unlock()
	close(c.started)
	var running sync.WaitGroup
	defer running.Wait()
	for {
		for _, k := range c.waiting() {
			run, cancel := context.WithCancel(ctx)
			running.Go(func() {
				defer cancel()
				k.RunWithContext(run)
			})
			running.Go(func() {
				select {
				case <-k.removed:
					cancel()
				case <-run.Done():
				}
			})
		}
		select {
		case <-c.wake:
		case <-ctx.Done():
			return nil
		}
	}
}

// waiting returns the informers that are not started yet, for the caller to start.
func (c *Cache) waiting() []*kind {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []*kind
	for _, k := range c.kinds {
		if !k.running {
			k.running = true
			all = append(all, k)
		}
	}
	return all
}

// WaitForCacheSync implements cache.Informers: it waits for Start and then for all informers that exist.
func (c *Cache) WaitForCacheSync(ctx context.Context) bool {
	select {
	case <-c.started:
	case <-ctx.Done():
		return false
	}
	c.mu.Lock()
	var all []toolscache.DoneChecker
	for _, k := range c.kinds {
		all = append(all, k.HasSyncedChecker())
	}
	c.mu.Unlock()
	for _, synced := range all {
		select {
		case <-synced.Done():
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// of returns the informer of obj's kind in obj's form, and makes it if it is missing and may be made.
func (c *Cache) of(gvk schema.GroupVersionKind, as shape, mustExist bool) (k *kind, started bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := form{gvk, as}
	if k := c.kinds[f]; k != nil {
		return k, c.begun, nil
	}
	if mustExist {
		return nil, false, &cache.ErrResourceNotCached{GVK: gvk}
	}
	source, namespaced, err := c.opener.Open(gvk)
	if err != nil {
		return nil, false, err
	}
	i := clientgo.New(shaped(source, gvk, as), c.options.Informers)
	if err := i.AddIndexers(toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc}); err != nil {
		return nil, false, fmt.Errorf("index %s by namespace: %w", gvk, err)
	}
	k = &kind{Informer: i, removed: make(chan struct{}), reader: reader{
		indexer: i.GetIndexer(), gvk: gvk, namespaced: namespaced, share: c.options.UnsafeDisableDeepCopy,
	}}
	c.kinds[f] = k
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return k, c.begun, nil
}

// synced waits until a running informer has its first list.
func (c *Cache) synced(ctx context.Context, k *kind, obj runtime.Object) error {
	select {
	case <-k.HasSyncedChecker().Done():
		return nil
	case <-ctx.Done():
	case <-k.removed:
	}
	return apierrors.NewTimeoutError(fmt.Sprintf("failed waiting for %T Informer to sync", obj), 0)
}

// GetInformer implements cache.Informers.
func (c *Cache) GetInformer(ctx context.Context, obj client.Object, options ...cache.InformerGetOption) (cache.Informer, error) {
	gvk, err := apiutil.GVKForObject(obj, c.scheme)
	if err != nil {
		return nil, err
	}
	return c.informer(ctx, gvk, obj, options)
}

// GetInformerForKind implements cache.Informers.
func (c *Cache) GetInformerForKind(ctx context.Context, gvk schema.GroupVersionKind, options ...cache.InformerGetOption) (cache.Informer, error) {
	obj, err := c.scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	return c.informer(ctx, gvk, obj, options)
}

func (c *Cache) informer(ctx context.Context, gvk schema.GroupVersionKind, obj runtime.Object, options []cache.InformerGetOption) (cache.Informer, error) {
	var o cache.InformerGetOptions
	for _, set := range options {
		set(&o)
	}
	k, started, err := c.of(gvk, shapeOf(obj), false)
	if err != nil {
		return nil, err
	}
	if started && (o.BlockUntilSynced == nil || *o.BlockUntilSynced) {
		if err := c.synced(ctx, k, obj); err != nil {
			return nil, err
		}
	}
	return k.Informer, nil
}

// RemoveInformer implements cache.Informers.
func (c *Cache) RemoveInformer(_ context.Context, obj client.Object) error {
	gvk, err := apiutil.GVKForObject(obj, c.scheme)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	f := form{gvk, shapeOf(obj)}
	if k := c.kinds[f]; k != nil {
		close(k.removed)
		delete(c.kinds, f)
	}
	return nil
}

// Get implements client.Reader.
func (c *Cache) Get(ctx context.Context, key client.ObjectKey, out client.Object, options ...client.GetOption) error {
	gvk, err := apiutil.GVKForObject(out, c.scheme)
	if err != nil {
		return err
	}
	r, err := c.reader(ctx, gvk, out)
	if err != nil {
		return err
	}
	return r.get(key, out, options)
}

// List implements client.Reader.
func (c *Cache) List(ctx context.Context, out client.ObjectList, options ...client.ListOption) error {
	gvk, err := apiutil.GVKForObject(out, c.scheme)
	if err != nil {
		return err
	}
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	var obj runtime.Object
	switch shapeOf(out) {
	case dynamic:
		obj = &unstructured.Unstructured{}
	case metadata:
		obj = &metav1.PartialObjectMetadata{}
	default:
		if obj, err = c.scheme.New(gvk); err != nil {
			return err
		}
	}
	r, err := c.reader(ctx, gvk, obj)
	if err != nil {
		return err
	}
	return r.list(out, options)
}

func (c *Cache) reader(ctx context.Context, gvk schema.GroupVersionKind, obj runtime.Object) (reader, error) {
	k, started, err := c.of(gvk, shapeOf(obj), c.options.ReaderFailOnMissingInformer)
	if err != nil {
		return reader{}, err
	}
	if !started {
		return reader{}, &cache.ErrCacheNotStarted{}
	}
	if err := c.synced(ctx, k, obj); err != nil {
		return reader{}, err
	}
	return k.reader, nil
}

// IndexField implements client.FieldIndexer.
func (c *Cache) IndexField(ctx context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	i, err := c.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	return i.AddIndexers(toolscache.Indexers{indexName(field): func(o any) ([]string, error) {
		obj, ok := o.(client.Object)
		if !ok {
			return nil, fmt.Errorf("object of type %T is not an Object", o)
		}
		var values []string
		for _, v := range extract(obj) {
			values = append(values, indexValue(obj.GetNamespace(), v))
			if obj.GetNamespace() != "" {
				values = append(values, indexValue("", v))
			}
		}
		return values, nil
	}})
}

// NeedLeaderElection reports that a cache runs on every replica.
func (c *Cache) NeedLeaderElection() bool { return false }
