package priorities

import (
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/internal/signature"
)

// TaintToleration prefers nodes with few PreferNoSchedule taints that the pod does not
// tolerate: 100 for none, 0 for as many as the worst of the nodes that can take the pod.
type TaintToleration struct{}

// Name is "TaintToleration".
func (TaintToleration) Name() string { return "TaintToleration" }

// Score counts the taints that are not tolerated.
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

// tolerates leaves out the comparing operators Lt and Gt, which are behind a gate that is off.
func tolerates(tolerations []corev1.Toleration, taint *corev1.Taint) bool {
	return schedulinghelpers.TolerationsTolerateTaint(logr.Discard(), tolerations, taint, false)
}

// Normalize makes few taints the best.
func (TaintToleration) Normalize(_ *corev1.Pod, scores []int64) { scheduler.Scale(scores, true) }

// Signature is the pod's tolerations.
func (TaintToleration) Signature(b []byte, pod *corev1.Pod) ([]byte, bool) {
	return signature.Tolerations(b, pod), true
}

// NodeAffinity prefers nodes that match the preferred terms of the pod's node affinity: by the
// sum of the weights of those that match. It has no opinion on pods without such terms.
type NodeAffinity struct{}

// Name is "NodeAffinity".
func (NodeAffinity) Name() string { return "NodeAffinity" }

// Score is the sum of the weights of the terms that match.
func (NodeAffinity) Score(pod *corev1.Pod, node *scheduler.NodeInfo) int64 {
	parsed, err := nodeaffinity.NewPreferredSchedulingTerms(preferred(pod))
	if err != nil {
		return 0
	}
	return parsed.Score(node.Node)
}

func preferred(pod *corev1.Pod) []corev1.PreferredSchedulingTerm {
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		return a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	}
	return nil
}

// PrepareScores parses the terms once, and fails when that is not possible.
func (NodeAffinity) PrepareScores(pod *corev1.Pod, _ *scheduler.Snapshot, _ []*scheduler.NodeInfo) (scheduler.PreparedScores, error) {
	terms := preferred(pod)
	if terms == nil {
		return scheduler.PreparedScores{Skip: true}, nil
	}
	parsed, err := nodeaffinity.NewPreferredSchedulingTerms(terms)
	if err != nil {
		return scheduler.PreparedScores{}, err
	}
	return scheduler.PreparedScores{Score: func(n *scheduler.NodeInfo) int64 { return parsed.Score(n.Node) }}, nil
}

// Normalize makes the highest sum 100.
func (NodeAffinity) Normalize(_ *corev1.Pod, scores []int64) { scheduler.Scale(scores, false) }

// Signature is the node selector and the affinity.
func (NodeAffinity) Signature(b []byte, pod *corev1.Pod) ([]byte, bool) {
	return signature.NodeAffinity(b, pod)
}
