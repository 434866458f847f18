package upkeep

import (
	"context"
	"errors"
	"fmt"
	"sync"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/flowcontrol"
)

// kind is one of the two kinds.
type kind[T registry.Object] struct {
	*registry.Resource
	live *registry.Live[T]
	// revise returns what an object must become, or nil.
	revise func(current, want T, mandatory bool) T
}

func kindOf[T registry.Object](r *registry.Registry, plural string, revise func(current, want T, mandatory bool) T) (*kind[T], error) {
	gr := schema.GroupResource{Group: flowcontrolv1.GroupName, Resource: plural}
	live, err := registry.NewLive[T](r, gr)
	if err != nil {
		return nil, fmt.Errorf("default flow control: %w", err)
	}
	res, _ := r.Resource(gr)
	return &kind[T]{res, live, revise}, nil
}

// ensure creates or revises objects, all at once: a server becomes ready after they are there, and a durable store syncs
// what is written at the same time together.
func (k *kind[T]) ensure(ctx context.Context, all []T, mandatory bool) error {
	errs := make([]error, len(all))
	var group sync.WaitGroup
	for i, want := range all {
		group.Go(func() {
			if err := k.ensureOne(ctx, want, mandatory); err != nil {
				errs[i] = fmt.Errorf("%s %s: %w", k.Singular, want.GetName(), err)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

func (k *kind[T]) ensureOne(ctx context.Context, want T, mandatory bool) error {
	if _, ok := k.live.Get("", want.GetName()); !ok {
		_, err := k.Create(ctx, want.DeepCopyObject().(registry.Object), registry.CreateOptions{})
		if !errors.Is(err, registry.ErrExists) {
			return err
		}
	}
	if current, ok := k.live.Get("", want.GetName()); ok && !k.wrong(current, want, mandatory) {
		return nil
	}
	_, _, err := k.Update(ctx, "", want.GetName(), func(_ context.Context, current registry.Object) (registry.Object, error) {
		if k.wrong(current.(T), want, mandatory) {
			return k.revise(current.(T), want, mandatory), nil
		}
		return current.DeepCopyObject().(registry.Object), nil
	}, registry.UpdateOptions{})
	if errors.Is(err, registry.ErrNotFound) {
		return nil // deleted meanwhile: the next round creates it
	}
	return err
}

// wrong reports whether an object must be revised.
func (k *kind[T]) wrong(current, want T, mandatory bool) bool {
	var none T
	return any(k.revise(current, want, mandatory)) != any(none)
}

// clean removes the objects that servers of other versions keep and this one does not know.
func (k *kind[T]) clean(ctx context.Context, known ...[]T) error {
	var names []string
	for _, list := range known {
		for _, obj := range list {
			names = append(names, obj.GetName())
		}
	}
	for _, obj := range k.live.List("") {
		if !flowcontrol.Unwanted(obj, names) {
			continue
		}
		if _, _, err := k.Delete(ctx, "", obj.GetName(), registry.DeleteOptions{}); err != nil && !errors.Is(err, registry.ErrNotFound) {
			return fmt.Errorf("unwanted %s %s: %w", k.Singular, obj.GetName(), err)
		}
	}
	return nil
}
