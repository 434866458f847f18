package component

import (
	"context"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime/schema"

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

// Informers are the shared caches of a process, one for each requested resource. Make them with NewInformers. Until
// Run, the methods and the functions Informer and Metadata are for one goroutine only.
type Informers struct {
	feed    Feed
	options informer.Options
	all     map[string]any
	members []member
	err     error
}

// member is an informer of any type.
type member interface {
	lifecycle.Runnable
	WaitSynced(ctx context.Context) error
}

// NewInformers makes an empty set whose informers read from feed with the given options.
func NewInformers(feed Feed, o informer.Options) *Informers {
	return &Informers{feed: feed, options: o, all: map[string]any{}}
}

// Informer returns the shared cache of a resource whose kind is T, and makes it at the first call. It is never nil: the
// cache of a resource that cannot be read stays empty, and Informers.Err says why.
func Informer[T informer.Object](in *Informers, resource schema.GroupVersionResource) *informer.Informer[T] {
	return cached(in, resource.String()+" "+reflect.TypeFor[T]().String(), func() (informer.Source[T], error) {
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
	return cached(in, resource.String()+" metadata", func() (informer.Source[informer.Object], error) {
		return in.feed.Metadata(resource)
	})
}

func cached[T informer.Object](in *Informers, key string, open func() (informer.Source[T], error)) *informer.Informer[T] {
	if i, ok := in.all[key]; ok {
		return i.(*informer.Informer[T])
	}
	source, err := open()
	if err != nil {
		if in.err == nil {
			in.err = err
		}
		source = unreadable[T]{err}
	}
	i := informer.New(source, in.options)
	in.all[key] = i
	in.members = append(in.members, i)
	return i
}

// Err returns the first error for a resource, or nil.
func (in *Informers) Err() error { return in.err }

// Run keeps all caches up to date until the context ends.
func (in *Informers) Run(ctx context.Context) error {
	members := make([]lifecycle.Runnable, len(in.members))
	for i, m := range in.members {
		members[i] = m
	}
	err := lifecycle.Group(members...).Run(ctx)
	if err == nil {
		<-ctx.Done() // also if there are no caches
	}
	return err
}

// WaitSynced blocks until the first list of each resource is in its cache, or the context ends.
func (in *Informers) WaitSynced(ctx context.Context) error {
	for _, m := range in.members {
		if err := m.WaitSynced(ctx); err != nil {
			return err
		}
	}
	return nil
}

// unreadable is the source of a resource that cannot be read.
type unreadable[T informer.Object] struct{ err error }

func (u unreadable[T]) List(context.Context) ([]T, string, error) { return nil, "", u.err }

func (u unreadable[T]) Watch(context.Context, string) (informer.Stream[T], error) { return nil, u.err }
