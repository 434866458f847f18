package replicas

import (
	"context"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/keelson-dev/keelson/client"
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

// updateStatus writes the status of obj, whose view is set, if it has changed. After a conflict it retries once on the set
// as it then is, with the observed generation acted upon.
func (c *Controller[T]) updateStatus(ctx context.Context, obj T, set *appsv1.ReplicaSet, next appsv1.ReplicaSetStatus) (*appsv1.ReplicaSet, error) {
	next.ObservedGeneration = set.Generation
	if !c.kind.Terminating {
		next.TerminatingReplicas = nil
	}
	if equality.Semantic.DeepEqual(set.Status, next) {
		return set, nil
	}
	target := c.kind.Target(set.Namespace, set.Name)
	subresource := target
	subresource.Subresource = "status"
	for retried := false; ; retried = true {
		changed := obj.DeepCopyObject().(T)
		c.kind.SetStatus(changed, next)
		updated, err := client.As[T](c.client.Update(ctx, subresource, changed, metav1.UpdateOptions{}))
		if err == nil {
			c.written.Wrote(updated, updated.GetUID())
			return c.kind.View(updated), nil
		}
		if retried {
			return nil, err
		}
		if obj, err = client.As[T](c.client.Get(ctx, target)); err != nil {
			return nil, err
		}
	}
}
