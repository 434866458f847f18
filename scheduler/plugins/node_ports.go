package plugins

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/signature"
)

// NodePorts refuses nodes on which a pod already has one of the host ports: "node(s) didn't have free ports for
// the requested pod ports".
type NodePorts struct{}

// Name returns "NodePorts".
func (NodePorts) Name() string { return "NodePorts" }

// Check checks for a conflict.
func (NodePorts) Check(pod *corev1.Pod, node *scheduler.NodeInfo) *scheduler.Refusal {
	return portsFree(scheduler.HostPorts(pod), node.Ports)
}

func portsFree(want, used []scheduler.HostPort) *scheduler.Refusal {
	for _, p := range want {
		for _, u := range used {
			if p.Conflicts(u) {
				return scheduler.Refuse("node(s) didn't have free ports for the requested pod ports")
			}
		}
	}
	return nil
}

// Prepare skips pods without host ports.
func (NodePorts) Prepare(pod *corev1.Pod, _ *scheduler.Snapshot) (scheduler.Prepared, error) {
	ports := scheduler.HostPorts(pod)
	if len(ports) == 0 {
		return scheduler.Prepared{Skip: true}, nil
	}
	return scheduler.Prepared{Check: func(n *scheduler.NodeInfo) *scheduler.Refusal { return portsFree(ports, n.Ports) }}, nil
}

// Signature appends the pod's host ports.
func (NodePorts) Signature(b []byte, pod *corev1.Pod) ([]byte, bool) {
	for _, p := range scheduler.HostPorts(pod) {
		b = signature.String(b, p.IP)
		b = signature.String(b, string(p.Protocol))
		b = append(strconv.AppendInt(b, int64(p.Port), 10), ' ')
	}
	return b, true
}

// Events returns pods that free ports, and added nodes.
func (NodePorts) Events() scheduler.EventKind {
	return scheduler.AssignedPodDeleted | scheduler.NodeAdded
}

// MayHelp reports whether the deleted pod had a conflicting port.
func (NodePorts) MayHelp(pod *corev1.Pod, e scheduler.Event) bool {
	if e.Kind == scheduler.AssignedPodDeleted {
		return portsFree(scheduler.HostPorts(pod), scheduler.HostPorts(e.OldPod)) != nil
	}
	return true
}
