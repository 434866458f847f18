package controllermanager

import (
	"context"
	"errors"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
)

// follow tells a controller which resources there are. Those whose objects are not known come apart: a server that does
// not answer must not hold up the controller.
type follow func(ctx context.Context, known, unknown []component.Resource) error

// follower calls a follow.
type follower struct {
	parts  *component.Parts
	follow follow
	// awaited are the caches that goroutines wait for; filled holds a token when one has filled.
	awaited map[*informer.Informer[informer.Object]]bool
	filled  chan struct{}
	waiting sync.WaitGroup
}

// following runs a controller and tells it which resources there are: before it starts, and whenever they change.
func following(p *component.Parts, controller lifecycle.Runnable, tell follow) lifecycle.Runnable {
	f := &follower{parts: p, follow: tell, awaited: map[*informer.Informer[informer.Object]]bool{}, filled: make(chan struct{}, 1)}
	return lifecycle.Func(func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		defer f.waiting.Wait()
		defer cancel()
		changed := f.changed()
		if err := f.refresh(ctx); err != nil {
			return err
		}
		return lifecycle.Group(controller, lifecycle.Func(func(ctx context.Context) error { return f.run(ctx, changed) })).Run(ctx)
	})
}

// changed is Cluster.Changed, which may be nil.
func (f *follower) changed() <-chan struct{} {
	if f.parts.Cluster.Changed == nil {
		return nil
	}
	return f.parts.Cluster.Changed()
}

func (f *follower) run(ctx context.Context, changed <-chan struct{}) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.filled:
		case <-changed:
			changed = f.changed()
		}
		if err := f.refresh(ctx); err != nil {
			return err
		}
	}
}

// refresh tells the controller which resources there are now.
func (f *follower) refresh(ctx context.Context) error {
	all, err := f.parts.Cluster.Resources(ctx)
	if _, partial := errors.AsType[component.Undiscovered](err); err != nil && !partial {
		f.parts.Logger.Warn("which resources there are is unknown; the last known ones stay", "error", err)
		return nil
	}
	var known, unknown []component.Resource
	for _, r := range all {
		if f.isKnown(ctx, r) {
			known = append(known, r)
		} else {
			unknown = append(unknown, r)
		}
	}
	if err := f.follow(ctx, known, unknown); ctx.Err() == nil {
		return err
	}
	return nil
}

// isKnown reports whether the objects of a resource are known or will be at once. If not, the controller is told when
// they are.
func (f *follower) isKnown(ctx context.Context, r component.Resource) bool {
	if !r.Delegated {
		return true
	}
	objects := component.Metadata(f.parts.Informers, r.GroupVersionResource)
	select {
	case <-objects.Synced():
		delete(f.awaited, objects)
		return true
	default:
	}
	if f.awaited[objects] {
		return false
	}
	f.awaited[objects] = true
	f.waiting.Go(func() {
		if objects.WaitSynced(ctx) != nil {
			return // the resource has gone, or the controller ends
		}
		select {
		case f.filled <- struct{}{}:
		default:
		}
	})
	return false
}

// stored returns the resources of the API server itself, whose objects will be known once it answers.
func stored(p *component.Parts) ([]component.Resource, error) {
	all, err := p.Cluster.Resources(context.Background())
	if _, partial := errors.AsType[component.Undiscovered](err); err != nil && !partial {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(all), func(r component.Resource) bool { return r.Delegated }), nil
}

// namespaced returns the resources to delete with a namespace.
func namespaced(ctx context.Context, c component.Cluster) (list []schema.GroupVersionResource, err error) {
	all, err := c.Resources(ctx)
	for _, r := range all {
		if r.Namespaced {
			list = append(list, r.GroupVersionResource)
		}
	}
	return list, err
}
