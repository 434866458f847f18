package plugins

import (
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/signature"
)

// TaintToleration refuses nodes with a NoSchedule or NoExecute taint that the pod does not tolerate: "node(s)
// had untolerated taint(s)". It prefers those with few untolerated PreferNoSchedule taints: 100 for none, 0 for
// as many as the worst feasible node has.
type TaintToleration struct{}

// Name returns "TaintToleration".
func (TaintToleration) Name() string { return "TaintToleration" }

// Check checks the node's taints.
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

// Signature appends the pod's tolerations.
func (TaintToleration) Signature(b []byte, pod *corev1.Pod) ([]byte, bool) {
	return signature.Tolerations(b, pod), true
}

// Events returns added and updated nodes, and new tolerations of the pod.
func (TaintToleration) Events() scheduler.EventKind {
	return scheduler.NodeAdded | scheduler.NodeUpdated | scheduler.PodUpdated
}

// MayHelp reports whether a node became tolerable.
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

// Score returns the number of untolerated taints.
func (TaintToleration) Score(pod *corev1.Pod, node *scheduler.NodeInfo) int64 {
	var n int64
	for i := range node.Node.Spec.Taints {
		t := &node.Node.Spec.Taints[i]
		if t.Effect == corev1.TaintEffectPreferNoSchedule && !tolerates(pod.Spec.Tolerations, t) {
			n++
		}
	}
	return n
}

// Normalize gives the fewest taints the best score.
func (TaintToleration) Normalize(_ *corev1.Pod, scores []int64) { scheduler.Scale(scores, true) }

// tolerates ignores the comparison operators Lt and Gt, whose feature gate is off.
func tolerates(tolerations []corev1.Toleration, taint *corev1.Taint) bool {
	return schedulinghelpers.TolerationsTolerateTaint(logr.Discard(), tolerations, taint, false)
}
