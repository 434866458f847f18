package replicaset

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/keelson-dev/keelson/controllers/internal/pods"
)

// replicas is the desired number of pods of the set; 1 if unset.
func replicas(set *appsv1.ReplicaSet) int32 {
	if set.Spec.Replicas == nil {
		return 1
	}
	return *set.Spec.Replicas
}

// status computes the status from the pods of a set. Failure is the error of creating or deleting pods, if any.
func status(set *appsv1.ReplicaSet, active, terminating []*corev1.Pod, failure error, now time.Time) appsv1.ReplicaSetStatus {
	out := *set.Status.DeepCopy()
	gone := int32(len(terminating))
	out.Replicas, out.TerminatingReplicas = int32(len(active)), &gone
	out.FullyLabeledReplicas, out.ReadyReplicas, out.AvailableReplicas = 0, 0, 0
	template := labels.SelectorFromValidatedSet(set.Spec.Template.Labels)
	for _, pod := range active {
		if template.Matches(labels.Set(pod.Labels)) {
			out.FullyLabeledReplicas++
		}
		if pods.Ready(pod) {
			out.ReadyReplicas++
		}
		if pods.Available(pod, set.Spec.MinReadySeconds, now) {
			out.AvailableReplicas++
		}
	}
	isFailure := func(c appsv1.ReplicaSetCondition) bool { return c.Type == appsv1.ReplicaSetReplicaFailure }
	switch failed := slices.ContainsFunc(out.Conditions, isFailure); {
	case failure == nil:
		out.Conditions = slices.DeleteFunc(out.Conditions, isFailure)
		if len(out.Conditions) == 0 {
			out.Conditions = nil
		}
	case !failed:
		reason := "FailedCreate"
		if len(active) > int(replicas(set)) {
			reason = "FailedDelete"
		}
		out.Conditions = append(out.Conditions, appsv1.ReplicaSetCondition{
			Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue,
			LastTransitionTime: metav1.NewTime(now), Reason: reason, Message: failure.Error(),
		})
	}
	return out
}

// updateStatus writes the status if it has changed. After a conflict it retries once on the set as it then is, with the
// observed generation acted upon.
func (c *Controller) updateStatus(ctx context.Context, set *appsv1.ReplicaSet, next appsv1.ReplicaSetStatus) (*appsv1.ReplicaSet, error) {
	next.ObservedGeneration = set.Generation
	if equality.Semantic.DeepEqual(set.Status, next) {
		return set, nil
	}
	target := kind().Target(set.Namespace, set.Name)
	for retried := false; ; retried = true {
		changed := set.DeepCopy()
		changed.Status = next
		subresource := target
		subresource.Subresource = "status"
		got, err := c.client.Update(ctx, subresource, changed, metav1.UpdateOptions{})
		if err == nil {
			updated, ok := got.(*appsv1.ReplicaSet)
			if !ok {
				return nil, fmt.Errorf("server answered with a %T", got)
			}
			c.written.Wrote(updated, updated.UID)
			return updated, nil
		}
		if retried {
			return nil, err
		}
		fresh, err := c.client.Get(ctx, target)
		if err != nil {
			return nil, err
		}
		var ok bool
		if set, ok = fresh.(*appsv1.ReplicaSet); !ok {
			return nil, fmt.Errorf("server answered with a %T", fresh)
		}
	}
}
