package component

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
)

// Feed provides the sources of informers. Implementations are safe for concurrent use.
type Feed interface {
	// New returns an empty object of the Go type of a resource's kind, or an error for a resource that cannot be read.
	New(resource schema.GroupVersionResource) (informer.Object, error)
	// Objects returns a source of all objects of a resource, decoded to the Go type of their kind.
	Objects(resource schema.GroupVersionResource) (informer.Source[informer.Object], error)
	// Metadata returns a source of all objects of a resource, with at least their metadata.
	Metadata(resource schema.GroupVersionResource) (informer.Source[informer.Object], error)
}

// Informers are the shared caches of a process, one for each requested resource. Make them with NewInformers. They are
// safe for concurrent use: a cache that is requested while Run runs is kept up to date from then on.
type Informers struct {
	feed    Feed
	options informer.Options

	mu      sync.Mutex // guards the rest
	all     map[string]any
	members []*member
	err     error
	// start runs a member; it is nil unless Run runs.
	start func(*member)
}

// member is an informer of any type.
type member struct {
	lifecycle.Runnable
	controllers.Synced
	resource schema.GroupVersionResource
	key      string
	// empty waits until the cache has no objects and all handlers know.
	empty func(ctx context.Context) error
	// stop ends the informer; it is nil before it was started.
	stop context.CancelFunc
}

// NewInformers makes an empty set whose informers read from feed with the given options.
func NewInformers(feed Feed, o informer.Options) *Informers {
	return &Informers{feed: feed, options: o, all: map[string]any{}}
}

// Informer returns the shared cache of a resource whose kind is T, and makes it at the first call. It is never nil: the
// cache of a resource that cannot be read stays empty, and Informers.Err says why, or has stopped if Run runs already.
func Informer[T informer.Object](in *Informers, resource schema.GroupVersionResource) *informer.Informer[T] {
	return cached(in, resource, reflect.TypeFor[T]().String(), func() (informer.Source[T], error) {
		empty, err := in.feed.New(resource)
		if err != nil {
			return nil, err
		}
		if _, err := as[T](empty); err != nil {
			return nil, fmt.Errorf("resource %s: %w", resource.GroupResource(), err)
		}
		source, err := in.feed.Objects(resource)
		if err != nil {
			return nil, err
		}
		return informer.Convert(source, as[T], nil), nil
	})
}

func as[T informer.Object](obj informer.Object) (T, error) {
	typed, ok := obj.(T)
	if !ok {
		return typed, fmt.Errorf("its objects are of type %T, not %s", obj, reflect.TypeFor[T]())
	}
	return typed, nil
}

// Metadata returns the shared cache of a resource of any kind, with at least the metadata of its objects.
func Metadata(in *Informers, resource schema.GroupVersionResource) *informer.Informer[informer.Object] {
	return cached(in, resource, "metadata", func() (informer.Source[informer.Object], error) {
		return in.feed.Metadata(resource)
	})
}

func cached[T informer.Object](in *Informers, resource schema.GroupVersionResource, what string, open func() (informer.Source[T], error)) *informer.Informer[T] {
	in.mu.Lock()
	defer in.mu.Unlock()
	key := resource.String() + " " + what
	if i, ok := in.all[key]; ok {
		return i.(*informer.Informer[T])
	}
	source, err := open()
	switch {
	case err != nil && in.start != nil:
		return ended[T](err) // the resource has just been removed
	case err != nil:
		if in.err == nil {
			in.err = err
		}
		source = unreadable[T]{err}
	}
	i := informer.New(source, in.options)
	in.all[key] = i
	m := &member{Runnable: i, Synced: i, resource: resource, key: key, empty: func(ctx context.Context) error { return emptied(ctx, i) }}
	in.members = append(in.members, m)
	if in.start != nil {
		in.start(m)
	}
	return i
}

// Err returns the first error for a resource that was requested before Run, or nil.
func (in *Informers) Err() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.err
}

// Run keeps all caches up to date until the context ends.
func (in *Informers) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		running sync.WaitGroup
		once    sync.Once
		first   error
	)
	in.mu.Lock()
	in.start = func(m *member) {
		var own context.Context
		own, m.stop = context.WithCancel(ctx)
		running.Go(func() {
			defer m.stop()
			if err := m.Run(own); err != nil {
				once.Do(func() { first = err; cancel() })
			}
		})
	}
	for _, m := range in.members {
		in.start(m)
	}
	in.mu.Unlock()
	<-ctx.Done()
	in.mu.Lock()
	in.start = nil
	in.mu.Unlock()
	running.Wait()
	return first
}

// WaitSynced blocks until the first list of each resource is in its cache, or the context ends.
func (in *Informers) WaitSynced(ctx context.Context) error {
	for _, m := range in.of(nil) {
		if err := m.WaitSynced(ctx); err != nil {
			return err
		}
	}
	return nil
}

// of returns the caches of a resource, or all.
func (in *Informers) of(resource *schema.GroupResource) []*member {
	in.mu.Lock()
	defer in.mu.Unlock()
	var list []*member
	for _, m := range in.members {
		if resource == nil || m.resource.GroupResource() == *resource {
			list = append(list, m)
		}
	}
	return list
}

// WaitEmpty blocks until the caches of a resource have no objects, and every handler that was added before the call knows
// it. It returns at once if Run does not run. It is for resources that are about to go: see Drop.
func (in *Informers) WaitEmpty(ctx context.Context, resource schema.GroupResource) error {
	in.mu.Lock()
	running := in.start != nil
	in.mu.Unlock()
	if !running {
		return nil
	}
	for _, m := range in.of(&resource) {
		if err := m.empty(ctx); err != nil && !errors.Is(err, informer.ErrStopped) {
			return err
		}
	}
	return nil
}

// emptied blocks until a handler has seen all objects go.
func emptied[T informer.Object](ctx context.Context, i *informer.Informer[T]) error {
	var objects atomic.Int64
	gone := make(chan struct{}, 1)
	r := i.AddHandler(informer.Handler[T]{
		Added: func(T) { objects.Add(1) },
		Deleted: func(T) {
			if objects.Add(-1) == 0 {
				select {
				case gone <- struct{}{}:
				default:
				}
			}
		},
	})
	defer r.Remove()
	for ready := r.Synced(); ; ready = gone {
		select {
		case <-ready:
			if objects.Load() == 0 {
				return nil
			}
		case <-r.Done():
			return informer.ErrStopped
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Drop ends and forgets the caches of a resource in all versions except those for which keep returns true. Whoever has a
// cache can read its last state; who asks for the resource again gets a new cache.
func (in *Informers) Drop(resource schema.GroupResource, keep func(schema.GroupVersionResource) bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.members = slices.DeleteFunc(in.members, func(m *member) bool {
		if m.resource.GroupResource() != resource || keep(m.resource) {
			return false
		}
		if m.stop != nil {
			m.stop()
		}
		delete(in.all, m.key)
		return true
	})
}

// ended returns an informer that has stopped.
func ended[T informer.Object](err error) *informer.Informer[T] {
	i := informer.New[T](unreadable[T]{err}, informer.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = i.Run(ctx) // returns nil at the end of its context
	return i
}

// unreadable is the source of a resource that cannot be read.
type unreadable[T informer.Object] struct{ err error }

func (u unreadable[T]) List(context.Context) ([]T, string, error) { return nil, "", u.err }

func (u unreadable[T]) Watch(context.Context, string) (informer.Stream[T], error) { return nil, u.err }
