package registry

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/storage"
)

// Initialization tells which objects are pending: stored, but still to be completed by others before they are there for
// everybody. Get, List, Watch, Source and Live leave them out unless they are asked for; when the last initializer is done,
// watches show an Added. Create returns when that has happened. Updates and deletes reach them, and their names are taken.
//
// All functions must be set, depend on the object alone and be safe for concurrent use. An object that is not pending must
// not become pending again, which admission sees to.
type Initialization struct {
	// Store brings a new object into the form that is stored, as Rules.Store does.
	Store func(obj Object)
	// Pending reports whether an object is pending. It is asked once for each state of an object.
	Pending func(obj Object) bool
	// Failed returns why a pending object will not be completed, or nil. The registry deletes such an object, whatever its
	// finalizers, as soon as that is stored, and the creator gets the error.
	Failed func(obj Object) error
	// Show changes what those who ask for pending objects see of one, as Rules.Decorate does.
	Show func(obj Object)
	// Fresh reports whether the spec of pending objects of a resource may be changed as if they were new.
	Fresh func(resource schema.GroupResource) bool
}

// Waits says what becomes of a create whose object is pending: see Initialization.
type Waits struct {
	// Pending lets the create return at once; otherwise it waits until the object is complete, or its context ends.
	Pending bool
	// Waiting, if set, is called before it waits.
	Waiting func()
}

// finish brings a new object into the form that is stored.
func (r *Resource) finish(obj Object) {
	if r.Rules.Store != nil {
		r.Rules.Store(obj)
	}
	if in := r.registry.options.Initialization; in != nil {
		in.Store(obj)
	}
}

// isPending reports whether an object is pending.
func (r *Resource) isPending(obj Object) bool {
	in := r.registry.options.Initialization
	return in != nil && in.Pending(obj)
}

// failed returns why a pending object will not be completed, or nil.
func (r *Resource) failed(obj Object) error {
	if !r.isPending(obj) {
		return nil
	}
	return r.registry.options.Initialization.Failed(obj)
}

// waits lets creates that wait end early.
type waits struct {
	once  sync.Once
	ended chan time.Time // closed when they are to end
}

// EndWaits ends the creates that wait for an object to be complete, with ErrTimeout, and those that would: the objects stay
// pending. A server calls it when it shuts down. It may be called more than once.
func (r *Registry) EndWaits() { r.waits.once.Do(func() { close(r.waits.ended) }) }

// HidesPending reports whether there may be pending objects.
func (r *Registry) HidesPending() bool { return r.options.Initialization != nil }

// IsPending reports whether an item is a pending object.
func (r *Resource) IsPending(i *Item) bool { return r.isPending(i.Object) }

// GetPending is Get for pending objects, too.
func (r *Resource) GetPending(ctx context.Context, namespace, name, resourceVersion string) (*Item, error) {
	if r.Read != nil {
		return r.compute(ctx, namespace, name)
	}
	if err := r.fresh(ctx, resourceVersion); err != nil {
		return nil, err
	}
	key := indexKey(namespace, name)
	if item := r.table.get(key); item != nil {
		return item, nil
	}
	return nil, r.missing(key, name)
}

// Hidden returns ErrNotFound if the object is pending, and nil if it is not or does not exist.
func (r *Resource) Hidden(ctx context.Context, namespace, name string) error {
	key := indexKey(namespace, name)
	if r.table == nil || !r.table.hides(key) {
		return nil
	}
	if err := r.catchUp(ctx); err != nil {
		return err
	}
	if r.table.hides(key) {
		return r.errorf(ErrNotFound, name, "")
	}
	return nil
}

// hides reports whether the object at key is pending.
func (t *table) hides(key string) bool {
	item := t.get(key)
	return item != nil && item.pending
}

// Pending returns the pending objects, in key order.
func (r *Resource) Pending(ctx context.Context) ([]*Item, error) {
	if r.table == nil {
		return nil, nil
	}
	r.table.mu.RLock()
	n := r.table.pending
	r.table.mu.RUnlock()
	if n == 0 {
		return nil, nil
	}
	l, err := r.List(ctx, ListOptions{Selection: Selection{Pending: true}})
	if err != nil {
		return nil, err
	}
	var items []*Item
	for _, i := range l.Items {
		if i.pending {
			items = append(items, i)
		}
	}
	return items, nil
}

// initialized waits until an object that was created is complete, and returns it. waiting, if set, is called before.
func (r *Resource) initialized(ctx context.Context, item *Item, waiting func()) (*Item, error) {
	if !r.isPending(item.Object) {
		return item, nil
	}
	if waiting != nil {
		waiting()
	}
	for {
		done, err := r.follow(ctx, item)
		switch {
		case err == nil:
			return done, nil
		case errors.Is(err, io.EOF): // the kind was replaced or removed
			res, ok := r.registry.Resource(r.stored.GroupResource())
			if !ok || res.table == nil {
				return nil, r.deletedEarly(item.Object.GetName())
			}
			r = res
		case !errors.Is(err, ErrExpired):
			return nil, err
		}
		if item, err = r.newestOf(ctx, item); err != nil || !r.isPending(item.Object) {
			return item, err
		}
	}
}

// deletedEarly is the error of a create whose object was deleted before it was complete, in upstream's words.
func (r *Resource) deletedEarly(name string) error {
	return r.errorf(ErrInternal, name, "object deleted while waiting for creation")
}

// follow watches a pending object from the given state on until it is complete.
func (r *Resource) follow(ctx context.Context, item *Item) (*Item, error) {
	name := item.Object.GetName()
	w, err := r.Watch(ctx, Selection{
		Namespace: item.Object.GetNamespace(), Fields: fields.OneTermEqualSelector("metadata.name", name), Pending: true,
	}, item.Revision)
	if err != nil {
		return nil, err
	}
	for {
		events, err := w.NextBefore(ctx, r.registry.waits.ended)
		switch {
		case err != nil:
			return nil, err
		case len(events) == 0:
			return nil, r.errorf(ErrTimeout, name, "server has timed out waiting for the initialization of %s %s", r.stored.GroupResource(), name)
		}
		for _, e := range events {
			failed := r.failed(e.Item.Object)
			switch {
			case failed != nil:
				return nil, failed
			case e.Type == informer.Deleted:
				return nil, r.deletedEarly(name)
			case !r.isPending(e.Item.Object):
				return e.Item, nil
			}
		}
	}
}

// newestOf returns the newest state of an object.
func (r *Resource) newestOf(ctx context.Context, item *Item) (*Item, error) {
	now, err := r.GetPending(ctx, item.Object.GetNamespace(), item.Object.GetName(), "")
	switch {
	case errors.Is(err, ErrNotFound), err == nil && now.Object.GetUID() != item.Object.GetUID():
		return nil, r.deletedEarly(item.Object.GetName())
	case err != nil:
		return nil, err
	}
	return now, r.failed(now.Object)
}

// countPending returns 1 for a pending item; i may be nil.
func countPending(i *Item) int {
	if i != nil && i.pending {
		return 1
	}
	return 0
}

// asNew reports whether an object may still be changed as if it were new.
func (r *Resource) asNew(obj Object) bool {
	return r.isPending(obj) && r.registry.options.Initialization.Fresh(r.stored.GroupResource())
}

// settle ends an update of an object: if it will not be completed, it is deleted, whether the client waits or not.
func (r *Resource) settle(ctx context.Context, item *Item) error {
	if r.failed(item.Object) == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	return r.DropFailed(ctx, item)
}

// DropFailed deletes a pending object if it will not be completed.
func (r *Resource) DropFailed(ctx context.Context, item *Item) error {
	for r.failed(item.Object) != nil {
		_, err := r.remove(ctx, item, item.Object)
		switch {
		case err == nil, errors.Is(err, storage.ErrNotFound):
			return nil
		case !errors.Is(err, storage.ErrConflict):
			return err
		}
		now, err := r.newest(ctx, item.key, item.Object.GetName())
		if err != nil || now.Object.GetUID() != item.Object.GetUID() {
			return nil //nolint:nilerr // it is gone
		}
		item = now
	}
	return nil
}
