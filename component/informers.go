package component

import (
	"context"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
)

// Feed is where informers read. Implementations are safe for concurrent use.
type Feed interface {
	// New is an empty object of the Go type that a resource's kind has here, or an error for a resource that cannot be
	// read.
	New(resource schema.GroupVersionResource) (informer.Object, error)
	// Objects is a source of all objects of a resource, decoded to the Go type of their kind.
	Objects(resource schema.GroupVersionResource) (informer.Source[informer.Object], error)
	// Metadata is a source of what has at least the metadata of the objects.
	Metadata(resource schema.GroupVersionResource) (informer.Source[informer.Object], error)
}

// Informers are the shared caches of a process, one for each resource that somebody asked for. Make them with
// NewInformers. Its methods, Informer and Metadata are for one goroutine, until Run.
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

// NewInformers makes an empty set that reads from feed, each informer with the options.
func NewInformers(feed Feed, o informer.Options) *Informers {
	return &Informers{feed: feed, options: o, all: map[string]any{}}
}

// Informer is the shared cache of a resource whose kind is T, made when it is first asked for. It is never nil: one of a
// resource that cannot be read stays empty, and Informers.Err says why.
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

// Metadata is the shared cache of a resource of any kind, of whose objects it has at least the metadata.
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

// Err is the first error that there was with a resource, or nil.
func (in *Informers) Err() error { return in.err }

// Run keeps all caches up to date until the context ends.
func (in *Informers) Run(ctx context.Context) error {
	members := make([]lifecycle.Runnable, len(in.members))
	for i, m := range in.members {
		members[i] = m
	}
	err := lifecycle.Group(members...).Run(ctx)
	if err == nil {
		<-ctx.Done() // also where nobody wanted a cache
	}
	return err
}

// WaitSynced blocks until the first list of each is in its cache, or the context ends.
func (in *Informers) WaitSynced(ctx context.Context) error {
	for _, m := range in.members {
		if err := m.WaitSynced(ctx); err != nil {
			return err
		}
	}
	return nil
}

// unreadable is a source of a resource that there is not.
type unreadable[T informer.Object] struct{ err error }

func (u unreadable[T]) List(context.Context) ([]T, string, error) { return nil, "", u.err }

func (u unreadable[T]) Watch(context.Context, string) (informer.Stream[T], error) { return nil, u.err }
