package garbagecollector

import (
	"context"
	"encoding/json"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
)

// finalizerTries is how often removing a finalizer is retried at once after a conflict.
const finalizerTries = 4

// removeOwners removes owners from an object's references.
func (c *Controller) removeOwners(ctx context.Context, at client.Target, uid types.UID, refs []metav1.OwnerReference) (metav1.Object, error) {
	gone := uidsOf(refs)
	deletions := make([]any, len(gone))
	for i, owner := range gone {
		deletions[i] = map[string]any{"$patch": "delete", "uid": owner}
	}
	return c.patchOwners(ctx, at, uid, deletions, func(refs []metav1.OwnerReference) []metav1.OwnerReference {
		return slices.DeleteFunc(refs, func(ref metav1.OwnerReference) bool { return slices.Contains(gone, ref.UID) })
	})
}

// unblock clears blockOwnerDeletion in all references of an object, and returns the result.
func (c *Controller) unblock(ctx context.Context, at client.Target, s state, obj metav1.Object) (metav1.Object, error) {
	var blocking []any
	for _, ref := range s.owners {
		if ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion {
			ref.BlockOwnerDeletion = new(bool)
			blocking = append(blocking, ref)
		}
	}
	if len(blocking) == 0 {
		return obj, nil
	}
	return c.patchOwners(ctx, at, s.uid, blocking, func(refs []metav1.OwnerReference) []metav1.OwnerReference {
		for i := range refs {
			refs[i].BlockOwnerDeletion = new(bool)
		}
		return refs
	})
}

// patchOwners changes owner references of exactly this object by a strategic merge. For kinds that do not support it,
// such as custom resources, it replaces all references by the result of change.
func (c *Controller) patchOwners(ctx context.Context, at client.Target, uid types.UID, merge []any, change func([]metav1.OwnerReference) []metav1.OwnerReference) (metav1.Object, error) {
	obj, err := c.patch(ctx, at, types.StrategicMergePatchType, map[string]any{"uid": uid, "ownerReferences": merge})
	if !apierrors.IsUnsupportedMediaType(err) {
		return obj, err
	}
	if obj, err = c.get(ctx, at); err != nil {
		return nil, err
	}
	return c.patch(ctx, at, types.MergePatchType, map[string]any{
		"uid": uid, "resourceVersion": obj.GetResourceVersion(), "ownerReferences": change(slices.Clone(obj.GetOwnerReferences())),
	})
}

// removeFinalizer removes a finalizer from an object, if it is still the same one.
func (c *Controller) removeFinalizer(ctx context.Context, at client.Target, uid types.UID, finalizer string) error {
	for try := 1; ; try++ {
		obj, err := c.get(ctx, at)
		if apierrors.IsNotFound(err) || err == nil && (obj.GetUID() != uid || !slices.Contains(obj.GetFinalizers(), finalizer)) {
			return nil
		}
		if err != nil {
			return err
		}
		kept := slices.DeleteFunc(slices.Clone(obj.GetFinalizers()), func(f string) bool { return f == finalizer })
		_, err = c.patch(ctx, at, types.MergePatchType, map[string]any{"resourceVersion": obj.GetResourceVersion(), "finalizers": kept})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if !apierrors.IsConflict(err) || try == finalizerTries {
			return err
		}
	}
}

// patch changes an object's metadata.
func (c *Controller) patch(ctx context.Context, at client.Target, how types.PatchType, metadata map[string]any) (metav1.Object, error) {
	data, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return nil, err
	}
	obj, err := c.client.Patch(ctx, at, client.Patch{Type: how, Data: data}, metav1.PatchOptions{})
	if err != nil {
		return nil, err
	}
	return meta.Accessor(obj)
}
