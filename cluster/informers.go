package cluster

import (
	"context"
	"fmt"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/registry"
)

// informers are the shared caches of the components in this process, one per kind, over the
// registry's own objects.
type informers struct {
	registry *registry.Registry
	options  informer.Options
	byKey    map[string]any
	members  []controllers.Runnable
}

func newInformers(r *registry.Registry, o informer.Options) *informers {
	return &informers{registry: r, options: o, byKey: map[string]any{}}
}

// shared returns the cache of a resource, made at the first call. Resources that the cluster
// does not serve are a mistake in the assembly and reported by err.
func shared[T informer.Object](in *informers, gr schema.GroupResource, err *error) *informer.Informer[T] {
	key := gr.String() + "/" + reflect.TypeFor[T]().String()
	if i, ok := in.byKey[key]; ok {
		return i.(*informer.Informer[T])
	}
	i := private[T](in, gr, registry.Selection{}, err)
	if i != nil {
		in.byKey[key] = i
		in.members = append(in.members, i)
	}
	return i
}

// private makes a cache of a selection, which the caller runs.
func private[T informer.Object](in *informers, gr schema.GroupResource, s registry.Selection, err *error) *informer.Informer[T] {
	source, sourceErr := registry.Source[T](in.registry, gr, s)
	if sourceErr != nil {
		*err = fmt.Errorf("cluster: %w", sourceErr)
		return nil
	}
	return informer.New(source, in.options)
}

// run keeps all shared caches up to date. It ends with ctx, also when no component
// wanted a cache.
func (in *informers) run(ctx context.Context) error {
	err := controllers.Group(in.members...).Run(ctx)
	if err == nil {
		<-ctx.Done()
	}
	return err
}

// waitSynced waits for all shared caches.
func (in *informers) waitSynced(ctx context.Context) error {
	for _, m := range in.members {
		if err := m.(controllers.Synced).WaitSynced(ctx); err != nil {
			return err
		}
	}
	return nil
}

// once closes a channel at the first call.
type once struct {
	sync.Once
	done chan struct{}
}

func newOnce() *once { return &once{done: make(chan struct{})} }

func (o *once) fire() { o.Do(func() { close(o.done) }) }
