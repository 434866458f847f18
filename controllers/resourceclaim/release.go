package resourceclaim

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// release takes pods that are done out of a claim's reservations, and ends the allocation and the life of a claim that
// nobody needs.
func (c *Controller) release(ctx context.Context, claim *resourcev1.ResourceClaim) error {
	remaining, err := c.remaining(ctx, claim)
	if err != nil {
		return err
	}
	ours := slices.Contains(claim.Finalizers, resourcev1.Finalizer) // whether this control plane has allocated it
	var now *resourcev1.ResourceClaim
	switch {
	case len(remaining) < len(claim.Status.ReservedFor):
		now = claim.DeepCopy()
		now.Status.ReservedFor = remaining
		if len(remaining) == 0 && ours {
			now.Status.Allocation = nil
		}
		if now, err = c.writeStatus(ctx, now); err != nil {
			return err
		}
		if now.Status.Allocation == nil {
			err = c.finish(ctx, now)
		}
	case ours && claim.DeletionTimestamp != nil && len(remaining) == 0:
		now = claim.DeepCopy()
		if now.Status.Allocation != nil {
			now.Status.Allocation = nil
			if now, err = c.writeStatus(ctx, now); err != nil {
				return err
			}
		}
		err = c.finish(ctx, now)
	}
	if err != nil || len(remaining) > 0 {
		return err
	}
	return c.deleteUnused(ctx, claim)
}

// finish removes the finalizer of an allocation that has ended. The claim is the caller's to change.
func (c *Controller) finish(ctx context.Context, claim *resourcev1.ResourceClaim) error {
	at := slices.Index(claim.Finalizers, resourcev1.Finalizer)
	if at < 0 {
		return nil
	}
	claim.Finalizers = slices.Delete(claim.Finalizers, at, at+1)
	_, err := c.client.Update(ctx, claimAt(claim.Namespace, claim.Name), claim, metav1.UpdateOptions{})
	return err
}

// remaining returns the reservations of a claim that go on.
func (c *Controller) remaining(ctx context.Context, claim *resourcev1.ResourceClaim) ([]resourcev1.ResourceClaimConsumerReference, error) {
	var remaining []resourcev1.ResourceClaimConsumerReference
	for _, r := range claim.Status.ReservedFor {
		keep := true
		if ofPod(r) {
			var err error
			if keep, err = c.uses(ctx, claim.Namespace, r); err != nil {
				return nil, err
			}
		}
		if keep {
			remaining = append(remaining, r)
		}
	}
	return remaining, nil
}

// uses reports whether the pod of a reservation goes on.
func (c *Controller) uses(ctx context.Context, namespace string, r resourcev1.ResourceClaimConsumerReference) (bool, error) {
	if pod, ok := c.in.Pods.Get(namespace, r.Name); ok {
		return pod.UID == r.UID && !done(pod), nil
	}
	// A pod that is new may not be shown yet.
	obj, err := c.client.Get(ctx, podAt(namespace, r.Name))
	if err != nil && !apierrors.IsNotFound(err) {
		return false, err
	}
	pod, ok := obj.(*corev1.Pod)
	return ok && pod.UID == r.UID, nil
}

// deleteUnused deletes a claim that was made for a pod that is done. Those of pods that are gone are the garbage collector's.
func (c *Controller) deleteUnused(ctx context.Context, claim *resourcev1.ResourceClaim) error {
	name, uid := owner(claim)
	if name == "" || claim.DeletionTimestamp != nil {
		return nil
	}
	pod, ok := c.in.Pods.Get(claim.Namespace, name)
	if !ok || pod.UID == uid && !done(pod) {
		return nil
	}
	if err := c.client.Delete(ctx, claimAt(claim.Namespace, claim.Name), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete unused generated claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return nil
}
