package garbagecollector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/events"
)

// errForever: an owner reference that no retry will make sense of.
var errForever = errors.New("cluster-scoped objects cannot refer to namespaced owners")

func schemaOf(ref metav1.OwnerReference) schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
}

// sync acts on one object and returns others that need a look because of it.
func (c *Controller) sync(ctx context.Context, s state) ([]types.UID, error) {
	if s.orphaning {
		return nil, c.orphan(ctx, s)
	}
	if s.beingDeleted && !s.foreground {
		return nil, nil
	}
	kind, ok := c.kind(s.kind)
	if !ok {
		if s.virtual {
			return nil, nil // an owner of a kind that is not served cannot be judged
		}
		return nil, fmt.Errorf("kind %s is not served", s.kind)
	}
	at := kind.target(s.namespace, s.name)
	latest, err := c.get(ctx, at)
	if apierrors.IsNotFound(err) || err == nil && latest.GetUID() != s.uid {
		c.remember(s.uid)
		return c.graph.forget(s.uid), nil
	}
	if err != nil || s.virtual {
		return nil, err
	}
	if s.foreground {
		return c.foreground(ctx, s, at, latest)
	}
	refs := latest.GetOwnerReferences()
	if len(refs) == 0 {
		return nil, nil
	}
	o, err := c.classify(ctx, s, refs)
	if errors.Is(err, errForever) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return nil, c.settle(ctx, s, at, latest, o)
}

// owners are the references of an object by what became of the owners.
type owners struct{ solid, dangling, waiting []metav1.OwnerReference }

func (c *Controller) classify(ctx context.Context, s state, refs []metav1.OwnerReference) (owners, error) {
	var o owners
	for _, ref := range refs {
		owner, err := c.owner(ctx, s, ref)
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
func (c *Controller) owner(ctx context.Context, s state, ref metav1.OwnerReference) (metav1.Object, error) {
	if c.isAbsent(ref.UID) {
		return nil, nil
	}
	kind, ok := c.kind(schemaOf(ref))
	if !ok {
		return nil, fmt.Errorf("owner %s %s of %s: the kind is not served", ref.Kind, ref.Name, s.name)
	}
	if kind.Namespaced && s.namespace == "" {
		return nil, errForever
	}
	owner, err := c.get(ctx, kind.target(s.namespace, ref.Name))
	if err == nil && owner.GetUID() == ref.UID {
		return owner, nil
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	if known, ok := c.graph.state(ref.UID); ok && kind.Namespaced && !known.virtual && known.namespace != s.namespace {
		c.recorder.Record(events.Event{
			Regarding: corev1.ObjectReference{
				APIVersion: s.kind.GroupVersion().String(), Kind: s.kind.Kind, Namespace: s.namespace, Name: s.name, UID: s.uid,
			},
			Type: corev1.EventTypeWarning, Reason: "OwnerRefInvalidNamespace",
			Message: fmt.Sprintf("ownerRef [%s/%s, namespace: %s, name: %s, uid: %s] does not exist in namespace %q",
				ref.APIVersion, ref.Kind, s.namespace, ref.Name, ref.UID, s.namespace),
		})
		return nil, nil
	}
	c.remember(ref.UID)
	return nil, nil
}

// settle does with an object what its owners' fates ask for.
func (c *Controller) settle(ctx context.Context, s state, at client.Target, obj metav1.Object, o owners) error {
	policy := metav1.DeletePropagationBackground
	switch {
	case len(o.solid) > 0:
		if len(o.dangling)+len(o.waiting) == 0 {
			return nil
		}
		return c.setOwners(ctx, at, obj, o.solid)
	case len(o.waiting) > 0 && len(s.dependents) > 0:
		if s.foregroundDependents {
			// A cycle of objects that all wait for each other: this one no longer blocks.
			if err := c.unblock(ctx, at, obj); err != nil {
				return err
			}
		}
		policy = metav1.DeletePropagationForeground
	case slices.Contains(obj.GetFinalizers(), metav1.FinalizerOrphanDependents):
		policy = metav1.DeletePropagationOrphan
	case slices.Contains(obj.GetFinalizers(), metav1.FinalizerDeleteDependents):
		policy = metav1.DeletePropagationForeground
	}
	uid, version := obj.GetUID(), obj.GetResourceVersion()
	preconditions := &metav1.Preconditions{UID: &uid, ResourceVersion: &version}
	if len(o.dangling) == 0 {
		preconditions.ResourceVersion = nil
	}
	err := c.client.Delete(ctx, at, metav1.DeleteOptions{Preconditions: preconditions, PropagationPolicy: &policy})
	return ignoreNotFound(err)
}

// foreground lets an object go that waits for its dependents, once none is left that blocks.
func (c *Controller) foreground(ctx context.Context, s state, at client.Target, obj metav1.Object) ([]types.UID, error) {
	if len(s.blocking) == 0 {
		return nil, c.removeFinalizer(ctx, at, obj, metav1.FinalizerDeleteDependents)
	}
	var look []types.UID
	for _, id := range s.blocking {
		if d, ok := c.graph.state(id); ok && !d.foreground {
			look = append(look, id)
		}
	}
	return look, nil
}

// orphan takes an object out of its dependents' references, then lets it go.
func (c *Controller) orphan(ctx context.Context, s state) error {
	kind, ok := c.kind(s.kind)
	if !ok {
		return fmt.Errorf("kind %s is not served", s.kind)
	}
	var failures []error
	for _, d := range s.dependents {
		failures = append(failures, c.disown(ctx, s.uid, d))
	}
	if err := errors.Join(failures...); err != nil {
		return err
	}
	at := kind.target(s.namespace, s.name)
	owner, err := c.get(ctx, at)
	if err != nil {
		return ignoreNotFound(err)
	}
	if owner.GetUID() != s.uid {
		return nil
	}
	return c.removeFinalizer(ctx, at, owner, metav1.FinalizerOrphanDependents)
}

func (c *Controller) disown(ctx context.Context, owner types.UID, dependent identity) error {
	kind, ok := c.kind(dependent.kind)
	if !ok {
		return nil
	}
	at := kind.target(dependent.namespace, dependent.name)
	obj, err := c.get(ctx, at)
	if err != nil {
		return ignoreNotFound(err)
	}
	refs := obj.GetOwnerReferences()
	kept := slices.DeleteFunc(slices.Clone(refs), func(ref metav1.OwnerReference) bool { return ref.UID == owner })
	if obj.GetUID() != dependent.uid || len(kept) == len(refs) {
		return nil
	}
	return c.setOwners(ctx, at, obj, kept)
}

func (c *Controller) unblock(ctx context.Context, at client.Target, obj metav1.Object) error {
	refs := slices.Clone(obj.GetOwnerReferences())
	for i := range refs {
		refs[i].BlockOwnerDeletion = new(bool)
	}
	return c.setOwners(ctx, at, obj, refs)
}

func (c *Controller) setOwners(ctx context.Context, at client.Target, obj metav1.Object, refs []metav1.OwnerReference) error {
	var value any = refs
	if len(refs) == 0 {
		value = nil
	}
	return c.patch(ctx, at, obj, "ownerReferences", value)
}

func (c *Controller) removeFinalizer(ctx context.Context, at client.Target, obj metav1.Object, finalizer string) error {
	if !slices.Contains(obj.GetFinalizers(), finalizer) {
		return nil
	}
	kept := slices.DeleteFunc(slices.Clone(obj.GetFinalizers()), func(f string) bool { return f == finalizer })
	return c.patch(ctx, at, obj, "finalizers", kept)
}

// patch replaces one field of the metadata of exactly this state of the object.
func (c *Controller) patch(ctx context.Context, at client.Target, obj metav1.Object, field string, value any) error {
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": obj.GetUID(), "resourceVersion": obj.GetResourceVersion(), field: value,
	}})
	if err != nil {
		return err
	}
	_, err = c.client.Patch(ctx, at, client.Patch{Type: types.MergePatchType, Data: data}, metav1.PatchOptions{})
	return ignoreNotFound(err)
}

func (c *Controller) get(ctx context.Context, at client.Target) (metav1.Object, error) {
	obj, err := c.client.Get(ctx, at)
	if err != nil {
		return nil, err
	}
	meta, ok := obj.(metav1.Object)
	if !ok {
		return nil, fmt.Errorf("%T has no metadata", obj)
	}
	return meta, nil
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
