package plugins

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/podspec/features"
	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/signature"
)

// NodeDeclaredFeatures refuses nodes whose kubelets do not declare, in status.declaredFeatures, a feature that
// the pod needs (KEP-5328): "node(s) didn't match Pod's required features". The features of 1.37 are the
// restart of all containers by a rule, user namespaces on the host's network, and options of bind mounts.
type NodeDeclaredFeatures struct{}

// Name returns "NodeDeclaredFeatures".
func (NodeDeclaredFeatures) Name() string { return "NodeDeclaredFeatures" }

// Check compares the pod's needs with the node's declared features.
func (NodeDeclaredFeatures) Check(pod *corev1.Pod, node *scheduler.NodeInfo) *scheduler.Refusal {
	return declares(features.Needed(&pod.Spec), node.Node)
}

func declares(needed []string, node *corev1.Node) *scheduler.Refusal {
	for _, feature := range needed {
		if !slices.Contains(node.Status.DeclaredFeatures, feature) {
			return &scheduler.Refusal{Reasons: []string{"node(s) didn't match Pod's required features"}, Unresolvable: true}
		}
	}
	return nil
}

// Prepare determines the pod's needs once.
func (NodeDeclaredFeatures) Prepare(pod *corev1.Pod, _ *scheduler.Snapshot) (scheduler.Prepared, error) {
	needed := features.Needed(&pod.Spec)
	if len(needed) == 0 {
		return scheduler.Prepared{Skip: true}, nil
	}
	return scheduler.Prepared{Check: func(n *scheduler.NodeInfo) *scheduler.Refusal { return declares(needed, n.Node) }}, nil
}

// Signature appends the names of the features.
func (NodeDeclaredFeatures) Signature(b []byte, pod *corev1.Pod) ([]byte, bool) {
	for _, feature := range features.Needed(&pod.Spec) {
		b = signature.String(b, feature)
	}
	return b, true
}

// Events returns added and updated nodes. The needs of a pod do not change.
func (NodeDeclaredFeatures) Events() scheduler.EventKind {
	return scheduler.NodeAdded | scheduler.NodeUpdated
}

// MayHelp reports whether a node declares enough that did not before.
func (NodeDeclaredFeatures) MayHelp(pod *corev1.Pod, e scheduler.Event) bool {
	needed := features.Needed(&pod.Spec)
	if declares(needed, e.Node) != nil {
		return false
	}
	return e.Kind == scheduler.NodeAdded || declares(needed, e.OldNode) != nil
}
