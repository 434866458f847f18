package plugins

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/signature"
)

// NodeName refuses all nodes except the one in spec.nodeName: "node(s) didn't match the requested node name".
type NodeName struct{}

// Name returns "NodeName".
func (NodeName) Name() string { return "NodeName" }

// Check compares the names.
func (NodeName) Check(pod *corev1.Pod, node *scheduler.NodeInfo) *scheduler.Refusal {
	if pod.Spec.NodeName == "" || pod.Spec.NodeName == node.Name {
		return nil
	}
	return &scheduler.Refusal{Reasons: []string{"node(s) didn't match the requested node name"}, Unresolvable: true}
}

// Prepare restricts the nodes to the one that the pod names, if any.
func (NodeName) Prepare(pod *corev1.Pod, _ *scheduler.Snapshot) (scheduler.Prepared, error) {
	if pod.Spec.NodeName == "" {
		return scheduler.Prepared{Skip: true}, nil
	}
	return scheduler.Prepared{Nodes: []string{pod.Spec.NodeName}}, nil
}

// Signature appends the name.
func (NodeName) Signature(b []byte, pod *corev1.Pod) ([]byte, bool) {
	return signature.String(b, pod.Spec.NodeName), true
}

// Events returns added nodes.
func (NodeName) Events() scheduler.EventKind { return scheduler.NodeAdded }

// MayHelp is always true.
func (NodeName) MayHelp(*corev1.Pod, scheduler.Event) bool { return true }
