package plugins

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/signature"
)

// NodeUnschedulable refuses nodes with spec.unschedulable, except for pods that tolerate the taint
// node.kubernetes.io/unschedulable:NoSchedule: "node(s) were unschedulable".
type NodeUnschedulable struct{}

// Name returns "NodeUnschedulable".
func (NodeUnschedulable) Name() string { return "NodeUnschedulable" }

// Check checks the node's spec.
func (NodeUnschedulable) Check(pod *corev1.Pod, node *scheduler.NodeInfo) *scheduler.Refusal {
	if !node.Node.Spec.Unschedulable || toleratesUnschedulable(pod) {
		return nil
	}
	return &scheduler.Refusal{Reasons: []string{"node(s) were unschedulable"}, Unresolvable: true}
}

func toleratesUnschedulable(pod *corev1.Pod) bool {
	return tolerates(pod.Spec.Tolerations, &corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
}

// Signature appends the pod's tolerations.
func (NodeUnschedulable) Signature(b []byte, pod *corev1.Pod) ([]byte, bool) {
	return signature.Tolerations(b, pod), true
}

// Events returns added and updated nodes, and new tolerations of the pod.
func (NodeUnschedulable) Events() scheduler.EventKind {
	return scheduler.NodeAdded | scheduler.NodeUpdated | scheduler.PodUpdated
}

// MayHelp reports whether a node became schedulable, or the pod tolerant.
func (NodeUnschedulable) MayHelp(_ *corev1.Pod, e scheduler.Event) bool {
	switch e.Kind {
	case scheduler.NodeAdded:
		return !e.Node.Spec.Unschedulable
	case scheduler.NodeUpdated:
		return e.OldNode.Spec.Unschedulable && !e.Node.Spec.Unschedulable
	case scheduler.PodUpdated:
		return e.Change&scheduler.PodTolerationsChanged != 0 && toleratesUnschedulable(e.Pod)
	}
	return false
}
