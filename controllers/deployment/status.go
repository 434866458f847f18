package deployment

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reasons of the Progressing condition.
const (
	reasonUpdated     = "ReplicaSetUpdated"
	reasonCreateError = "ReplicaSetCreateError"
	reasonCreated     = "NewReplicaSetCreated"
	reasonFound       = "FoundNewReplicaSet"
	reasonAvailable   = "NewReplicaSetAvailable"
	reasonTimedOut    = "ProgressDeadlineExceeded"
	reasonPaused      = "DeploymentPaused"
	reasonResumed     = "DeploymentResumed"
)

func newCondition(kind appsv1.DeploymentConditionType, status corev1.ConditionStatus, reason, message string, now time.Time) appsv1.DeploymentCondition {
	at := metav1.NewTime(now)
	return appsv1.DeploymentCondition{Type: kind, Status: status, Reason: reason, Message: message, LastUpdateTime: at, LastTransitionTime: at}
}

// condition returns the condition of that type, or nil.
func condition(status *appsv1.DeploymentStatus, kind appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for i := range status.Conditions {
		if status.Conditions[i].Type == kind {
			return &status.Conditions[i]
		}
	}
	return nil
}

// setCondition replaces the condition of the same type and moves it to the end; a condition with the same status and
// reason is left unchanged.
func setCondition(status *appsv1.DeploymentStatus, c appsv1.DeploymentCondition) {
	if had := condition(status, c.Type); had != nil {
		if had.Status == c.Status && had.Reason == c.Reason {
			return
		}
		if had.Status == c.Status {
			c.LastTransitionTime = had.LastTransitionTime
		}
	}
	removeCondition(status, c.Type)
	status.Conditions = append(status.Conditions, c)
}

func removeCondition(status *appsv1.DeploymentStatus, kind appsv1.DeploymentConditionType) {
	var kept []appsv1.DeploymentCondition
	for _, c := range status.Conditions {
		if c.Type != kind {
			kept = append(kept, c)
		}
	}
	status.Conditions = kept
}

// counts computes the status from the sets, with the Deployment's conditions and its availability.
func counts(d *appsv1.Deployment, s sets, now time.Time) appsv1.DeploymentStatus {
	all := s.all()
	status := appsv1.DeploymentStatus{
		ObservedGeneration:  d.Generation,
		Replicas:            sum(all, func(set *appsv1.ReplicaSet) int32 { return set.Status.Replicas }),
		ReadyReplicas:       sum(all, func(set *appsv1.ReplicaSet) int32 { return set.Status.ReadyReplicas }),
		AvailableReplicas:   sum(all, available),
		TerminatingReplicas: terminating(all),
		CollisionCount:      d.Status.CollisionCount,
		Conditions:          slices.Clone(d.Status.Conditions),
	}
	status.UnavailableReplicas = max(0, sum(all, size)-status.AvailableReplicas)
	if s.current != nil {
		status.UpdatedReplicas = s.current.Status.Replicas
	}
	if status.AvailableReplicas >= replicas(d)-maxUnavailable(d) {
		setCondition(&status, newCondition(appsv1.DeploymentAvailable, corev1.ConditionTrue,
			"MinimumReplicasAvailable", "Deployment has minimum availability.", now))
	} else {
		setCondition(&status, newCondition(appsv1.DeploymentAvailable, corev1.ConditionFalse,
			"MinimumReplicasUnavailable", "Deployment does not have minimum availability.", now))
	}
	return status
}

// terminating adds up the terminating pods in the sets' statuses; nil if a set that its controller has observed does
// not report them.
func terminating(all []*appsv1.ReplicaSet) *int32 {
	total := int32(0)
	for _, set := range all {
		switch {
		case set.Status.TerminatingReplicas != nil:
			total += *set.Status.TerminatingReplicas
		case set.Status.ObservedGeneration > 0:
			return nil
		}
	}
	return &total
}

// rolloutStatus returns counts plus the conditions about progress and failing sets.
func rolloutStatus(d *appsv1.Deployment, s sets, now time.Time) appsv1.DeploymentStatus {
	status := counts(d, s, now)
	if !hasDeadline(d) {
		removeCondition(&status, appsv1.DeploymentProgressing)
	}
	had := condition(&d.Status, appsv1.DeploymentProgressing)
	finished := status.Replicas == status.UpdatedReplicas && had != nil && had.Reason == reasonAvailable
	if hasDeadline(d) && !finished {
		setProgress(d, s, &status, now)
	}
	if failure, ok := replicaFailure(s); ok {
		setCondition(&status, failure)
	} else {
		removeCondition(&status, appsv1.DeploymentReplicaFailure)
	}
	return status
}

// setProgress sets the Progressing condition of a rollout that is not known to be complete.
func setProgress(d *appsv1.Deployment, s sets, status *appsv1.DeploymentStatus, now time.Time) {
	subject := fmt.Sprintf("Deployment %q", d.Name)
	if s.current != nil {
		subject = fmt.Sprintf("ReplicaSet %q", s.current.Name)
	}
	switch {
	case complete(d, status):
		setCondition(status, newCondition(appsv1.DeploymentProgressing, corev1.ConditionTrue,
			reasonAvailable, subject+" has successfully progressed.", now))
	case progressed(&d.Status, status):
		c := newCondition(appsv1.DeploymentProgressing, corev1.ConditionTrue, reasonUpdated, subject+" is progressing.", now)
		// Unlike other conditions, this one is renewed with the same reason, since the deadline counts from its last
		// update.
		if had := condition(&d.Status, appsv1.DeploymentProgressing); had != nil {
			if had.Status == corev1.ConditionTrue {
				c.LastTransitionTime = had.LastTransitionTime
			}
			removeCondition(status, appsv1.DeploymentProgressing)
		}
		setCondition(status, c)
	case timedOut(d, status, now):
		setCondition(status, newCondition(appsv1.DeploymentProgressing, corev1.ConditionFalse,
			reasonTimedOut, subject+" has timed out progressing.", now))
	}
}

// progressed reports whether there are more updated, ready or available pods, or fewer old ones.
func progressed(old, status *appsv1.DeploymentStatus) bool {
	return status.UpdatedReplicas > old.UpdatedReplicas ||
		status.Replicas-status.UpdatedReplicas < old.Replicas-old.UpdatedReplicas ||
		status.ReadyReplicas > old.ReadyReplicas ||
		status.AvailableReplicas > old.AvailableReplicas
}

// timedOut reports whether there was no progress within the deadline.
func timedOut(d *appsv1.Deployment, status *appsv1.DeploymentStatus, now time.Time) bool {
	c := condition(status, appsv1.DeploymentProgressing)
	if c == nil || c.Reason == reasonAvailable {
		return false // nothing to count from
	}
	return c.Reason == reasonTimedOut || deadline(d, c).Before(now)
}

func deadline(d *appsv1.Deployment, c *appsv1.DeploymentCondition) time.Time {
	return c.LastUpdateTime.Add(time.Duration(*d.Spec.ProgressDeadlineSeconds) * time.Second)
}

// replicaFailure returns the failure of the current set, or else of the first old set that has one, as a condition of
// the Deployment.
func replicaFailure(s sets) (appsv1.DeploymentCondition, bool) {
	all := s.old
	if s.current != nil {
		all = append([]*appsv1.ReplicaSet{s.current}, all...)
	}
	for _, set := range all {
		for _, c := range set.Status.Conditions {
			if c.Type == appsv1.ReplicaSetReplicaFailure {
				return appsv1.DeploymentCondition{
					Type: appsv1.DeploymentReplicaFailure, Status: c.Status, Reason: c.Reason, Message: c.Message,
					LastTransitionTime: c.LastTransitionTime, LastUpdateTime: c.LastTransitionTime,
				}, true
			}
		}
	}
	return appsv1.DeploymentCondition{}, false
}

// progressCheck returns when to check whether a rollout without visible progress has passed its deadline; 0 means
// never.
func progressCheck(d *appsv1.Deployment, status *appsv1.DeploymentStatus, now time.Time) time.Duration {
	c := condition(&d.Status, appsv1.DeploymentProgressing)
	if !hasDeadline(d) || c == nil || complete(d, status) || c.Reason == reasonTimedOut || c.Reason == reasonAvailable {
		return 0 // once complete, a rollout does not time out, even if its pods fail later
	}
	left := deadline(d, c).Sub(now)
	if left < time.Second {
		return 5 * time.Millisecond
	}
	return left + time.Second // condition times are truncated to seconds
}

// pauseCondition returns the Progressing condition to set because the Deployment was paused or resumed: the time of a
// pause does not count against the deadline.
func pauseCondition(d *appsv1.Deployment, now time.Time) (appsv1.DeploymentCondition, bool) {
	had := condition(&d.Status, appsv1.DeploymentProgressing)
	if !hasDeadline(d) || had != nil && had.Reason == reasonTimedOut {
		return appsv1.DeploymentCondition{}, false
	}
	said := had != nil && had.Reason == reasonPaused
	switch {
	case d.Spec.Paused && !said:
		return newCondition(appsv1.DeploymentProgressing, corev1.ConditionUnknown, reasonPaused, "Deployment is paused", now), true
	case !d.Spec.Paused && said:
		return newCondition(appsv1.DeploymentProgressing, corev1.ConditionUnknown, reasonResumed, "Deployment is resumed", now), true
	}
	return appsv1.DeploymentCondition{}, false
}
