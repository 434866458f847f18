package nodelifecycle

import (
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// health is the last known state of a node and when it was seen, by this controller's clock: those of the nodes may be
// wrong.
type health struct {
	probed time.Time             // time of the last sign of life
	ready  *corev1.NodeCondition // nil when there was none
	lease  *coordinationv1.Lease // the last lease that counted as a sign of life
}

func conditionOf(conditions []corev1.NodeCondition, kind corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range conditions {
		if conditions[i].Type == kind {
			return &conditions[i]
		}
	}
	return nil
}

// readyOf returns a copy of the node's Ready condition, or nil.
func readyOf(node *corev1.Node) *corev1.NodeCondition {
	c := conditionOf(node.Status.Conditions, corev1.NodeReady)
	if c == nil {
		return nil
	}
	ready := *c
	return &ready
}

// observe returns the new health of a node. had is the previous one, nil the first time; lease is nil if there is none.
func observe(node *corev1.Node, lease *coordinationv1.Lease, had *health, now time.Time) health {
	ready := readyOf(node)
	if had == nil {
		had = &health{probed: node.CreationTimestamp.Time}
	}
	next := health{probed: now, ready: ready}
	switch {
	case ready == nil:
		// A condition that has disappeared is no reason to consider the node silent.
		next = health{probed: had.probed, lease: had.lease}
	case had.ready != nil && had.ready.LastHeartbeatTime.Equal(&ready.LastHeartbeatTime):
		next = *had
	}
	if lease != nil && (had.lease == nil || had.lease.Spec.RenewTime.Before(lease.Spec.RenewTime)) {
		next.lease = lease
		next.probed = now
	}
	return next
}

// unknown returns the conditions of a node whose kubelet is silent. NetworkUnavailable is left alone: the kubelet does
// not maintain it.
func unknown(node *corev1.Node, now time.Time) []corev1.NodeCondition {
	conditions := slices.Clone(node.Status.Conditions)
	at := metav1.NewTime(now.Truncate(time.Second))
	for _, kind := range []corev1.NodeConditionType{
		corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure,
	} {
		c := conditionOf(conditions, kind)
		switch {
		case c == nil:
			conditions = append(conditions, corev1.NodeCondition{
				Type: kind, Status: corev1.ConditionUnknown,
				Reason: "NodeStatusNeverUpdated", Message: "Kubelet never posted node status.",
				LastHeartbeatTime: node.CreationTimestamp, LastTransitionTime: at,
			})
		case c.Status != corev1.ConditionUnknown:
			c.Status = corev1.ConditionUnknown
			c.Reason, c.Message = "NodeStatusUnknown", "Kubelet stopped posting node status."
			c.LastTransitionTime = at
		}
	}
	return conditions
}
