package predicates

import (
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/internal/signature"
)

// SchedulingGates holds back pods that carry spec.schedulingGates (KEP-3521).
type SchedulingGates struct{}

// Name is "SchedulingGates".
func (SchedulingGates) Name() string { return "SchedulingGates" }

// Check refuses every node to a pod with gates.
func (g SchedulingGates) Check(pod *corev1.Pod, _ *scheduler.NodeInfo) *scheduler.Refusal {
	return g.Holds(pod)
}

// Prepare refuses a pod with gates as a whole.
func (g SchedulingGates) Prepare(pod *corev1.Pod, _ *scheduler.Snapshot) (scheduler.Prepared, error) {
	refusal := g.Holds(pod)
	return scheduler.Prepared{Skip: refusal == nil, Refusal: refusal}, nil
}

// Holds names the gates.
func (SchedulingGates) Holds(pod *corev1.Pod) *scheduler.Refusal {
	if len(pod.Spec.SchedulingGates) == 0 {
		return nil
	}
	names := make([]string, len(pod.Spec.SchedulingGates))
	for i, g := range pod.Spec.SchedulingGates {
		names[i] = g.Name
	}
	return &scheduler.Refusal{Reasons: []string{fmt.Sprintf("waiting for scheduling gates: %v", names)}, Unresolvable: true}
}

// Signature is the names of the gates.
func (SchedulingGates) Signature(b []byte, pod *corev1.Pod) ([]byte, bool) {
	for _, g := range pod.Spec.SchedulingGates {
		b = signature.String(b, g.Name)
	}
	return b, true
}

// Events are updates of the pod.
func (SchedulingGates) Events() scheduler.EventKind { return scheduler.PodUpdated }

// MayHelp waits for the last gate to go.
func (SchedulingGates) MayHelp(_ *corev1.Pod, e scheduler.Event) bool {
	return e.Change&scheduler.PodGatesGone != 0
}

// NodeName refuses all nodes but the one in spec.nodeName: "node(s) didn't match the requested
// node name".
type NodeName struct{}

// Name is "NodeName".
func (NodeName) Name() string { return "NodeName" }

// Check compares the names.
func (NodeName) Check(pod *corev1.Pod, node *scheduler.NodeInfo) *scheduler.Refusal {
	if pod.Spec.NodeName == "" || pod.Spec.NodeName == node.Name {
		return nil
	}
	return &scheduler.Refusal{Reasons: []string{"node(s) didn't match the requested node name"}, Unresolvable: true}
}

// Prepare leaves only the node that the pod names, if it does.
func (NodeName) Prepare(pod *corev1.Pod, _ *scheduler.Snapshot) (scheduler.Prepared, error) {
	if pod.Spec.NodeName == "" {
		return scheduler.Prepared{Skip: true}, nil
	}
	return scheduler.Prepared{Nodes: []string{pod.Spec.NodeName}}, nil
}

// Signature is the name.
func (NodeName) Signature(b []byte, pod *corev1.Pod) ([]byte, bool) {
	return signature.String(b, pod.Spec.NodeName), true
}

// Events are new nodes.
func (NodeName) Events() scheduler.EventKind { return scheduler.NodeAdded }

// MayHelp is always true.
func (NodeName) MayHelp(*corev1.Pod, scheduler.Event) bool { return true }

// NodeUnschedulable refuses nodes with spec.unschedulable to pods that do not tolerate the
// taint node.kubernetes.io/unschedulable:NoSchedule: "node(s) were unschedulable".
type NodeUnschedulable struct{}

// Name is "NodeUnschedulable".
func (NodeUnschedulable) Name() string { return "NodeUnschedulable" }

// Check looks at the node's spec.
func (NodeUnschedulable) Check(pod *corev1.Pod, node *scheduler.NodeInfo) *scheduler.Refusal {
	if !node.Node.Spec.Unschedulable || toleratesUnschedulable(pod) {
		return nil
	}
	return &scheduler.Refusal{Reasons: []string{"node(s) were unschedulable"}, Unresolvable: true}
}

func toleratesUnschedulable(pod *corev1.Pod) bool {
	return tolerates(pod.Spec.Tolerations, &corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
}

// tolerates leaves out the comparing operators Lt and Gt, which are behind a gate that is off.
func tolerates(tolerations []corev1.Toleration, taint *corev1.Taint) bool {
	return schedulinghelpers.TolerationsTolerateTaint(logr.Discard(), tolerations, taint, false)
}

// Signature is the pod's tolerations.
func (NodeUnschedulable) Signature(b []byte, pod *corev1.Pod) ([]byte, bool) {
	return signature.Tolerations(b, pod), true
}

// Events are nodes that come or change, and tolerations that the pod gets.
func (NodeUnschedulable) Events() scheduler.EventKind {
	return scheduler.NodeAdded | scheduler.NodeUpdated | scheduler.PodUpdated
}

// MayHelp asks whether a node became schedulable, or the pod tolerant.
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

// TaintToleration refuses nodes with a NoSchedule or NoExecute taint that the pod does not
// tolerate: "node(s) had untolerated taint(s)".
type TaintToleration struct{}

// Name is "TaintToleration".
func (TaintToleration) Name() string { return "TaintToleration" }

// Check looks at the node's taints.
func (TaintToleration) Check(pod *corev1.Pod, node *scheduler.NodeInfo) *scheduler.Refusal {
	if toleratesAll(pod, node.Node) {
		return nil
	}
	return &scheduler.Refusal{Reasons: []string{"node(s) had untolerated taint(s)"}, Unresolvable: true}
}

func toleratesAll(pod *corev1.Pod, node *corev1.Node) bool {
	for i := range node.Spec.Taints {
		t := &node.Spec.Taints[i]
		hard := t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
		if hard && !tolerates(pod.Spec.Tolerations, t) {
			return false
		}
	}
	return true
}

// Signature is the pod's tolerations.
func (TaintToleration) Signature(b []byte, pod *corev1.Pod) ([]byte, bool) {
	return signature.Tolerations(b, pod), true
}

// Events are nodes that come or change, and tolerations that the pod gets.
func (TaintToleration) Events() scheduler.EventKind {
	return scheduler.NodeAdded | scheduler.NodeUpdated | scheduler.PodUpdated
}

// MayHelp asks whether a node became tolerable.
func (TaintToleration) MayHelp(pod *corev1.Pod, e scheduler.Event) bool {
	switch e.Kind {
	case scheduler.NodeAdded:
		return toleratesAll(pod, e.Node)
	case scheduler.NodeUpdated:
		return !toleratesAll(pod, e.OldNode) && toleratesAll(pod, e.Node)
	case scheduler.PodUpdated:
		return e.Change&scheduler.PodTolerationsChanged != 0
	}
	return false
}
