package registry

import (
	"context"
	"errors"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/storage"
)

// DeleteOptions are the options of a delete.
type DeleteOptions struct {
	metav1.DeleteOptions
	// Admit, if set, may refuse to delete the object in its present state.
	Admit  func(ctx context.Context, obj Object) error
	DryRun bool
}

// Delete begins or completes the deletion of an object. gone reports whether it was removed; if not, its grace
// period, its finalizers or its kind still hold it. The item is the object's last or new state.
func (r *Resource) Delete(ctx context.Context, namespace, name string, o DeleteOptions) (item *Item, gone bool, err error) {
	if guard := r.Rules.Deletion.Guard; guard != nil {
		if err := guard(name); err != nil {
			return nil, false, err
		}
	}
	if warning := r.Rules.Deletion.OrphansWarning; warning != "" && o.OrphanDependents == nil && o.PropagationPolicy == nil {
		Warn(ctx, warning)
	}
	key := indexKey(namespace, name)
	if ignore := o.IgnoreStoreReadErrorWithClusterBreakingPotential; ignore != nil && *ignore {
		return r.deleteUnread(ctx, key, name, o.DryRun)
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		current, err := r.newest(ctx, key, name)
		if err != nil {
			return nil, false, err
		}
		d, err := r.delete(ctx, current, o)
		if again, failed := r.again(ctx, current, d.attempted, err); failed != nil {
			return nil, false, failed
		} else if again {
			continue
		}
		return d.item, d.gone, err
	}
}

// deletion is one attempt to delete.
type deletion struct {
	item      *Item
	gone      bool
	attempted bool // whether it reached the store
}

func (r *Resource) delete(ctx context.Context, current *Item, o DeleteOptions) (deletion, error) {
	if err := r.deletePreconditions(current.Object, o.Preconditions); err != nil {
		return deletion{}, err
	}
	if o.Admit != nil {
		if err := o.Admit(ctx, current.Object); err != nil {
			return deletion{}, err
		}
	}
	obj := current.Object.DeepCopyObject().(Object)
	changed, remove := r.Rules.Deletion.decide(obj, o.DeleteOptions, time.Now())
	remove = remove || r.isPending(obj) // nobody has seen it who would have to let go of it
	switch {
	case o.DryRun:
		return deletion{item: &Item{Object: obj, key: current.key}, gone: remove}, nil
	case remove:
		item, err := r.remove(ctx, current, obj)
		return deletion{item: item, gone: true, attempted: true}, err
	case !changed:
		return deletion{item: current}, nil
	}
	item, err := r.commit(ctx, current.key, obj, func(value []byte) (int64, error) {
		return r.storeOver(ctx, current, value)
	})
	if err == nil {
		r.after(ctx, item, current)
	}
	return deletion{item: item, attempted: true}, err
}

// remove deletes the record and returns the object's last state.
func (r *Resource) remove(ctx context.Context, current *Item, last Object) (*Item, error) {
	ctx, held, err := r.reserve(ctx, nil, current.Object, false)
	if err != nil {
		return nil, err
	}
	defer held.end(ctx)
	revision, err := held.write(ctx, func() (int64, error) {
		if err := r.served(); err != nil {
			return 0, err
		}
		return r.registry.store.Delete(ctx, r.storageKey(current.key), current.Revision)
	})
	if err != nil {
		return nil, err
	}
	err = r.registry.clock.wait(ctx, revision)
	r.after(ctx, nil, current)
	return &Item{Object: last, Revision: current.Revision, key: current.key}, err
}

func (r *Resource) deletePreconditions(obj Object, p *metav1.Preconditions) error {
	if p == nil {
		return nil
	}
	// Upstream's message names the kind, not the resource, in these two conflicts.
	kind := ObjectKey{Resource: schema.GroupResource{Group: r.GroupVersion.Group, Resource: r.Names.Kind}, Name: obj.GetName()}
	if p.UID != nil && *p.UID != obj.GetUID() {
		return Errorf(ErrConflict, kind, "the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated", *p.UID, obj.GetUID())
	}
	if p.ResourceVersion != nil && *p.ResourceVersion != obj.GetResourceVersion() {
		return Errorf(ErrConflict, kind, "the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). The object might have been modified", *p.ResourceVersion, obj.GetResourceVersion())
	}
	return nil
}

// removable reports whether nothing holds an object whose deletion has begun.
func (r *Resource) removable(obj Object) bool {
	if obj.GetDeletionTimestamp() == nil || len(obj.GetFinalizers()) > 0 {
		return false
	}
	if grace := obj.GetDeletionGracePeriodSeconds(); grace != nil && *grace > 0 {
		return false
	}
	return r.Rules.Deletion.Held == nil || !r.Rules.Deletion.Held(obj)
}

// decide changes obj, a private copy, into the state after a delete. It returns whether anything changed, and
// whether the object can be removed at once.
func (d Deletion[T]) decide(obj T, o metav1.DeleteOptions, now time.Time) (changed, remove bool) {
	asked := o.GracePeriodSeconds
	if asked != nil && *asked < 0 {
		one := int64(1)
		asked = &one
	}
	begun := obj.GetDeletionTimestamp() != nil
	pending := false
	switch left := obj.GetDeletionGracePeriodSeconds(); {
	case begun && left != nil && *left > 0 && d.Grace != nil:
		pending = true
		if asked != nil && *asked < *left {
			shorten(obj, *asked, now)
			changed, pending = true, *obj.GetDeletionGracePeriodSeconds() > 0
		}
	case !begun && d.Grace != nil:
		grace := d.Grace(obj, asked)
		begin(obj, grace, now)
		changed, pending = true, grace > 0
	}
	if finalizers := finalizersFor(obj.GetFinalizers(), o, d.Orphans); !slices.Equal(finalizers, obj.GetFinalizers()) {
		obj.SetFinalizers(finalizers)
		changed = true
	}
	if !begun && d.Begin != nil {
		d.Begin(obj)
		changed = true
	}
	held := len(obj.GetFinalizers()) > 0 || d.Held != nil && d.Held(obj)
	if !pending && !held {
		return true, true
	}
	if held && !pending {
		// An object that is held without a grace period is marked as deleted with none left.
		if obj.GetDeletionTimestamp() == nil {
			begin(obj, 0, now)
			changed = true
		}
		if d.Held != nil && d.Held(obj) {
			obj.SetDeletionGracePeriodSeconds(nil) // there is no grace, but finalizers remain
			return changed, false
		}
		if left := obj.GetDeletionGracePeriodSeconds(); left == nil || *left != 0 {
			zero := int64(0)
			obj.SetDeletionGracePeriodSeconds(&zero)
			changed = true
		}
	}
	return changed, false
}

// begin marks obj as being deleted; its generation rises so that controllers take notice.
func begin(obj metav1.Object, grace int64, now time.Time) {
	at := metav1.NewTime(now.Add(time.Duration(grace) * time.Second).Truncate(time.Second))
	obj.SetDeletionTimestamp(&at)
	obj.SetDeletionGracePeriodSeconds(&grace)
	if obj.GetGeneration() > 0 {
		obj.SetGeneration(obj.GetGeneration() + 1)
	}
}

// shorten moves the deletion time of obj forward to that of a shorter grace period, but never into the past: an
// overdue object gets another second, so that its owner still ends it gracefully.
func shorten(obj metav1.Object, grace int64, now time.Time) {
	start := obj.GetDeletionTimestamp().Add(-time.Duration(*obj.GetDeletionGracePeriodSeconds()) * time.Second)
	at := start.Add(time.Duration(grace) * time.Second)
	if at.Before(now) {
		at = now
		if grace != 0 {
			grace = 1
		}
	}
	stamp := metav1.NewTime(at.Truncate(time.Second))
	obj.SetDeletionTimestamp(&stamp)
	obj.SetDeletionGracePeriodSeconds(&grace)
}

// finalizersFor returns the finalizers that make the garbage collector use the requested propagation; without a
// request, existing ones stay, or orphans says whether dependents are orphaned.
func finalizersFor(have []string, o metav1.DeleteOptions, orphans bool) []string {
	orphan := slices.Contains(have, metav1.FinalizerOrphanDependents)
	foreground := slices.Contains(have, metav1.FinalizerDeleteDependents)
	hadOrphan, hadForeground := orphan, foreground
	switch {
	case o.OrphanDependents != nil:
		orphan, foreground = *o.OrphanDependents, false
	case o.PropagationPolicy != nil:
		orphan = *o.PropagationPolicy == metav1.DeletePropagationOrphan
		foreground = *o.PropagationPolicy == metav1.DeletePropagationForeground
	case !foreground:
		orphan = orphan || orphans
	}
	if orphan == hadOrphan && foreground == hadForeground {
		return have
	}
	var want []string
	for _, f := range have {
		if f != metav1.FinalizerOrphanDependents && f != metav1.FinalizerDeleteDependents {
			want = append(want, f)
		}
	}
	if orphan {
		want = append(want, metav1.FinalizerOrphanDependents)
	}
	if foreground {
		want = append(want, metav1.FinalizerDeleteDependents)
	}
	return want
}

// expire deletes objects not written for longer than the kind's time to live. A storage.Lessor has already done
// so, except for records that were copied into it.
func (r *Resource) expire(ctx context.Context, now time.Time) {
	tree, _ := r.table.snapshot(&r.registry.clock)
	tree.All(func(i *Item) bool {
		if now.Sub(written(i.Object)) > r.TTL {
			if _, err := r.remove(ctx, i, i.Object); err != nil && !errors.Is(err, storage.ErrConflict) && !errors.Is(err, storage.ErrNotFound) {
				r.registry.log.Warn("cannot delete an expired object", "resource", r.GroupResource().String(), "key", i.key, "error", err)
			}
		}
		return ctx.Err() == nil
	})
}

// written returns when the object was last written, according to its metadata.
func written(obj Object) time.Time {
	at := obj.GetCreationTimestamp().Time
	for _, f := range obj.GetManagedFields() {
		if f.Time != nil && f.Time.After(at) {
			at = f.Time.Time
		}
	}
	return at
}
