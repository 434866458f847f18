package garbagecollector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
)

// errForever: an owner reference that no retry will make sense of.
var errForever = errors.New("owner cannot be judged")

// sync acts on one object and says when to look at it again.
func (c *Controller) sync(ctx context.Context, s state) (time.Duration, error) {
	switch {
	case s.orphaning:
		return 0, c.orphan(ctx, s)
	case s.beingDeleted && !s.foreground:
		return 0, nil // the event of its end will come
	}
	at, err := c.target(s.identity)
	if err != nil {
		return 0, nil //nolint:nilerr // nothing will come of trying again
	}
	latest, err := c.get(ctx, at)
	switch {
	case apierrors.IsNotFound(err) || err == nil && latest.GetUID() != s.uid:
		c.gone(s.identity)
	case err != nil:
		return 0, err
	case s.foreground:
		return 0, c.foreground(ctx, s, at)
	default:
		if err := c.collect(ctx, s, at, latest); err != nil {
			return 0, err
		}
	}
	// A virtual owner that the server knows, or may know by another name, is asked for until an
	// event tells of it: the informer may have missed both its coming and its going.
	return c.graph.again(s.uid), nil
}

// gone takes in that the server does not know an object.
func (c *Controller) gone(id identity) { c.follow(c.graph.missing(id)) }

// collect deletes an object whose owners are all gone or going.
func (c *Controller) collect(ctx context.Context, s state, at client.Target, obj metav1.Object) error {
	refs := obj.GetOwnerReferences()
	if len(refs) == 0 {
		return nil
	}
	o, err := c.classify(ctx, s.identity, refs)
	if errors.Is(err, errForever) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(o.solid) > 0 {
		if len(o.dangling)+len(o.waiting) == 0 {
			return nil
		}
		// Those that wait are left too, or they would wait for ever.
		_, err := c.disown(ctx, at, s.uid, append(o.dangling, o.waiting...))
		return err
	}
	policy := metav1.DeletePropagationBackground
	switch finalizers := obj.GetFinalizers(); {
	case len(o.waiting) > 0 && len(s.dependents) > 0:
		if slices.ContainsFunc(s.dependents, func(d dependent) bool { return d.foreground }) {
			// It may be a cycle of objects that all wait for each other: this one no longer blocks.
			unblocked, err := c.unblock(ctx, at, s, obj)
			if err != nil {
				return err
			}
			obj = unblocked
		}
		policy = metav1.DeletePropagationForeground
	case slices.Contains(finalizers, metav1.FinalizerOrphanDependents):
		policy = metav1.DeletePropagationOrphan
	case slices.Contains(finalizers, metav1.FinalizerDeleteDependents):
		policy = metav1.DeletePropagationForeground
	}
	return c.delete(ctx, at, s.identity, obj, policy)
}

// owners are the references of an object by what became of the owners: they are there, they are
// gone, they wait for their dependents to go.
type owners struct{ solid, dangling, waiting []metav1.OwnerReference }

func (c *Controller) classify(ctx context.Context, of identity, refs []metav1.OwnerReference) (owners, error) {
	var o owners
	for _, ref := range refs {
		owner, err := c.owner(ctx, claimed(ref, of.namespace))
		switch {
		case err != nil:
			return o, err
		case owner == nil:
			o.dangling = append(o.dangling, ref)
		case owner.GetDeletionTimestamp() != nil && slices.Contains(owner.GetFinalizers(), metav1.FinalizerDeleteDependents):
			o.waiting = append(o.waiting, ref)
		default:
			o.solid = append(o.solid, ref)
		}
	}
	return o, nil
}

// owner asks the server for the owner that a reference names; nil when there is none.
func (c *Controller) owner(ctx context.Context, id identity) (metav1.Object, error) {
	if c.graph.isAbsent(id) {
		return nil, nil
	}
	at, err := c.target(id)
	if err != nil {
		return nil, err
	}
	owner, err := c.get(ctx, at)
	if err == nil && owner.GetUID() == id.uid {
		return owner, nil
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	id.namespace = at.Namespace // none when the kind has none
	c.graph.remember(id)
	return nil, nil
}

// delete deletes an object unless it is another one by now, or has other owners than obj. With
// no obj the owners do not matter.
func (c *Controller) delete(ctx context.Context, at client.Target, id identity, obj metav1.Object, policy metav1.DeletionPropagation) error {
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &id.uid}, PropagationPolicy: &policy}
	if obj != nil {
		version := obj.GetResourceVersion()
		options.Preconditions.ResourceVersion = &version
	}
	err := c.client.Delete(ctx, at, options)
	if apierrors.IsConflict(err) && obj != nil {
		live, liveErr := c.get(ctx, at)
		switch {
		case apierrors.IsNotFound(liveErr):
			err = liveErr
		case liveErr == nil && live.GetUID() == id.uid && live.GetResourceVersion() != obj.GetResourceVersion() &&
			equality.Semantic.DeepEqual(live.GetOwnerReferences(), obj.GetOwnerReferences()):
			// Others' writes that have nothing to do with owners must not keep it alive.
			return c.delete(ctx, at, id, nil, policy)
		}
	}
	if apierrors.IsNotFound(err) {
		c.gone(id)
		return nil
	}
	return err
}

// foreground lets an object go that waits for its dependents, once none is left that blocks.
func (c *Controller) foreground(ctx context.Context, s state, at client.Target) error {
	blocked := false
	for _, d := range s.dependents {
		if !d.blocks {
			continue
		}
		blocked = true
		if !d.foreground {
			c.queue.Add(controllers.Key{Name: string(d.uid)})
		}
	}
	if blocked {
		return nil
	}
	return c.removeFinalizer(ctx, at, s.uid, metav1.FinalizerDeleteDependents)
}

// orphan takes an object out of its dependents' references, then lets it go.
func (c *Controller) orphan(ctx context.Context, s state) error {
	at, err := c.target(s.identity)
	if err != nil {
		return nil //nolint:nilerr // it cannot be: the object was observed
	}
	var failures []error
	for _, d := range s.dependents {
		where, err := c.target(d.identity)
		if err == nil {
			_, err = c.disown(ctx, where, d.uid, []metav1.OwnerReference{{UID: s.uid}})
		}
		if err != nil && !apierrors.IsNotFound(err) {
			failures = append(failures, fmt.Errorf("orphaning %s failed: %w", d.identity, err))
		}
	}
	if err := errors.Join(failures...); err != nil {
		return err
	}
	return c.removeFinalizer(ctx, at, s.uid, metav1.FinalizerOrphanDependents)
}

func (c *Controller) get(ctx context.Context, at client.Target) (metav1.Object, error) {
	obj, err := c.client.Get(ctx, at)
	if err != nil {
		return nil, err
	}
	return meta.Accessor(obj)
}

// uidsOf are the owners that references name.
func uidsOf(refs []metav1.OwnerReference) []types.UID {
	list := make([]types.UID, len(refs))
	for i, ref := range refs {
		list[i] = ref.UID
	}
	return list
}
