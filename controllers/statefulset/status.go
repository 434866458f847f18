package statefulset

import (
	"cmp"
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers/internal/pods"
)

// status returns the status without its counts.
func (w *world) status() appsv1.StatefulSetStatus {
	return appsv1.StatefulSetStatus{
		ObservedGeneration: w.set.Generation, CurrentRevision: w.current.name, UpdateRevision: w.update.name,
		CollisionCount: &w.collisions, Conditions: w.set.Status.DeepCopy().Conditions,
	}
}

// count counts the pods as the reconciliation found them.
func (w *world) count(status *appsv1.StatefulSetStatus, lists ...[]*corev1.Pod) {
	for _, list := range lists {
		for _, pod := range list {
			if !exists(pod) {
				continue
			}
			status.Replicas++
			if runningAndReady(pod) {
				status.ReadyReplicas++
				if pods.Available(pod, w.set.Spec.MinReadySeconds, w.now) {
					status.AvailableReplicas++
				}
			}
			if pod.DeletionTimestamp != nil {
				continue
			}
			if revisionOf(pod) == w.current.name {
				status.CurrentReplicas++
			}
			if revisionOf(pod) == w.update.name {
				status.UpdatedReplicas++
			}
		}
	}
}

// complete makes the update revision the current one if all pods have it and are ready.
func complete(set *appsv1.StatefulSet, status appsv1.StatefulSetStatus) appsv1.StatefulSetStatus {
	want := int32(replicas(set))
	if status.UpdatedReplicas == want && status.ReadyReplicas == want && status.Replicas == want {
		status.CurrentReplicas, status.CurrentRevision = status.UpdatedReplicas, status.UpdateRevision
	}
	return status
}

// changed reports whether a status is worth a write. A higher count of collisions comes with another revision.
func changed(old, status appsv1.StatefulSetStatus) bool {
	newer := status.ObservedGeneration > old.ObservedGeneration
	status.ObservedGeneration, status.CollisionCount = old.ObservedGeneration, old.CollisionCount
	return newer || !equality.Semantic.DeepEqual(old, status)
}

// updateStatus writes the status if it has changed. After a conflict it retries once on the set as it then is.
func (c *Controller) updateStatus(ctx context.Context, set *appsv1.StatefulSet, status appsv1.StatefulSetStatus) error {
	status = complete(set, status)
	if !changed(set.Status, status) {
		return nil
	}
	target := kind().Target(set.Namespace, set.Name)
	for retried := false; ; retried = true {
		next := set.DeepCopy()
		next.Status = status
		at := target
		at.Subresource = "status"
		updated, err := client.As[*appsv1.StatefulSet](c.client.Update(ctx, at, next, metav1.UpdateOptions{}))
		if err == nil {
			c.written.set(set, updated)
		}
		if retried || !apierrors.IsConflict(err) {
			return err
		}
		fresh, failed := client.As[*appsv1.StatefulSet](c.client.Get(ctx, target))
		if failed != nil || fresh.UID != set.UID {
			return cmp.Or(failed, err)
		}
		set = fresh
	}
}
