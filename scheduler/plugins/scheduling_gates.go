package plugins

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/signature"
)

// SchedulingGates holds back pods with spec.schedulingGates (KEP-3521).
type SchedulingGates struct{}

// Name returns "SchedulingGates".
func (SchedulingGates) Name() string { return "SchedulingGates" }

// Check refuses every node for a pod with gates.
func (g SchedulingGates) Check(pod *corev1.Pod, _ *scheduler.NodeInfo) *scheduler.Refusal {
	return g.Holds(pod)
}

// Prepare refuses a pod with gates as a whole.
func (g SchedulingGates) Prepare(pod *corev1.Pod, _ *scheduler.Snapshot) (scheduler.Prepared, error) {
	refusal := g.Holds(pod)
	return scheduler.Prepared{Skip: refusal == nil, Refusal: refusal}, nil
}

// Holds returns the names of the gates as the reason.
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

// Signature appends the names of the gates.
func (SchedulingGates) Signature(b []byte, pod *corev1.Pod) ([]byte, bool) {
	for _, g := range pod.Spec.SchedulingGates {
		b = signature.String(b, g.Name)
	}
	return b, true
}

// Events returns updates of the pod.
func (SchedulingGates) Events() scheduler.EventKind { return scheduler.PodUpdated }

// MayHelp reports whether the last gate was removed.
func (SchedulingGates) MayHelp(_ *corev1.Pod, e scheduler.Event) bool {
	return e.Change&scheduler.PodGatesGone != 0
}
