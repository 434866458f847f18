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

// errForever means that an owner reference cannot be resolved, however often it is retried.
var errForever = errors.New("owner cannot be judged")

// errUnserved means that the server does not serve a resource that it served a moment ago.
var errUnserved = errors.New("resource is not served at the moment")

// sync processes one object and returns when to process it again.
func (c *Controller) sync(ctx context.Context, s state) (time.Duration, error) {
	switch {
	case s.orphaning:
		return 0, c.orphan(ctx, s)
	case s.beingDeleted && !s.foreground:
		return 0, nil // the event of its deletion will come
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
	// If the server has a virtual owner, or may have it by another identity, it is checked until there is an event: the
	// informer may have missed both its creation and its deletion.
	return c.graph.again(s.uid), nil
}

// gone records that the server has no such object.
func (c *Controller) gone(id identity) { c.follow(c.graph.missing(id)) }

// collect deletes an object whose owners are all gone or being deleted.
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
	if len(o.present) > 0 {
		if len(o.dangling)+len(o.waiting) == 0 {
			return nil
		}
		// References to owners that wait are removed as well, or those would wait for ever.
		_, err := c.removeOwners(ctx, at, s.uid, append(o.dangling, o.waiting...))
		return err
	}
	policy := metav1.DeletePropagationBackground
	switch finalizers := obj.GetFinalizers(); {
	case len(o.waiting) > 0 && len(s.dependents) > 0:
		if slices.ContainsFunc(s.dependents, func(d dependent) bool { return d.foreground }) {
			// The objects may form a cycle in which all wait for each other: this one no longer blocks.
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

// owners are the references of an object by the state of the owners: existing, absent, or waiting for their dependents
// to be deleted.
type owners struct{ present, dangling, waiting []metav1.OwnerReference }

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
			o.present = append(o.present, ref)
		}
	}
	return o, nil
}

// owner gets the owner that a reference names from the server; nil if there is none.
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
	id.namespace = at.Namespace // empty for a cluster-scoped kind
	c.graph.remember(id)
	return nil, nil
}

// delete deletes an object unless it was replaced, or its owners differ from those of obj. If obj is nil, its owners do
// not matter.
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
			// Other clients' writes that do not concern owners must not keep it alive.
			return c.delete(ctx, at, id, nil, policy)
		}
	}
	if apierrors.IsNotFound(err) {
		c.gone(id)
		return nil
	}
	return err
}

// foreground removes the finalizer of an object that waits for its dependents, once none blocks it any more.
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

// orphan removes an object from its dependents' references, then removes its finalizer.
func (c *Controller) orphan(ctx context.Context, s state) error {
	at, err := c.target(s.identity)
	if err != nil {
		return nil //nolint:nilerr // it cannot be: the object was observed
	}
	var failures []error
	for _, d := range s.dependents {
		where, err := c.target(d.identity)
		if err == nil {
			_, err = c.removeOwners(ctx, where, d.uid, []metav1.OwnerReference{{UID: s.uid}})
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
	at.Uninitialized = true // an owner that nobody sees yet is not absent
	obj, err := c.client.Get(ctx, at)
	if apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		// Not the object is missing but its resource: its kind is being changed or removed.
		return nil, fmt.Errorf("%w: %s", errUnserved, at.Resource)
	}
	if err != nil {
		return nil, err
	}
	return meta.Accessor(obj)
}

// uidsOf returns the uids of the owners that references name.
func uidsOf(refs []metav1.OwnerReference) []types.UID {
	list := make([]types.UID, len(refs))
	for i, ref := range refs {
		list[i] = ref.UID
	}
	return list
}
