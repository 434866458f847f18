package decision

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/podspec/restart"
)

// ownedCondition reports whether only the kubelet sets the condition.
func ownedCondition(t corev1.PodConditionType) bool {
	switch t {
	case corev1.PodScheduled, corev1.PodReady, corev1.PodInitialized, corev1.ContainersReady,
		corev1.PodReadyToStartContainers, corev1.PodResizePending, corev1.PodResizeInProgress:
		return true
	}
	return false
}

func findCondition(list []corev1.PodCondition, t corev1.PodConditionType) *corev1.PodCondition {
	for i := range list {
		if list[i].Type == t {
			return &list[i]
		}
	}
	return nil
}

// setConditions keeps the conditions of others and adds the kubelet's own.
func (in *Situation) setConditions(status *corev1.PodStatus) {
	for _, c := range in.Pod.Status.Conditions {
		if !ownedCondition(c.Type) {
			status.Conditions = append(status.Conditions, c)
		}
	}
	if in.Stage != Over {
		status.Conditions = append(status.Conditions, in.Resize.conditions()...)
	}
	if in.Disruption != nil {
		status.Conditions = append(slices.DeleteFunc(status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == in.Disruption.Type
		}), *in.Disruption)
	}
	initialized := in.initializedCondition(status)
	containersReady := in.containersReadyCondition(status)
	ready := in.readyCondition(status.Conditions, containersReady)
	status.Conditions = append(status.Conditions,
		in.sandboxCondition(), initialized, ready, containersReady,
		corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue})
	for i := range status.Conditions {
		if t := status.Conditions[i].Type; ownedCondition(t) && !aboutResize(t) {
			status.Conditions[i].ObservedGeneration = in.Pod.Generation
		}
	}
}

func (in *Situation) sandboxCondition() corev1.PodCondition {
	need, _, _, why := sandboxNeeded(in.Pod, in.Observed)
	if !need {
		return corev1.PodCondition{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue}
	}
	return corev1.PodCondition{
		Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse,
		Reason: "PodSandboxNotReady", Message: why,
	}
}

func (in *Situation) initializedCondition(status *corev1.PodStatus) corev1.PodCondition {
	yes := corev1.PodCondition{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}
	var incomplete []string
	for i := range status.InitContainerStatuses { // in the order of the spec
		s := &status.InitContainerStatuses[i]
		done := s.Ready
		if restart.Sidecar(&in.Pod.Spec.InitContainers[i]) {
			done = *s.Started
		}
		if !done {
			incomplete = append(incomplete, s.Name)
		}
	}
	if status.Phase == corev1.PodSucceeded {
		yes.Reason = "PodCompleted"
		return yes
	}
	for _, s := range status.ContainerStatuses {
		if s.State.Running != nil || s.State.Terminated != nil {
			return yes
		}
	}
	if len(incomplete) == 0 {
		return yes
	}
	if old := findCondition(in.Previous.Conditions, corev1.PodInitialized); old != nil && old.Status == corev1.ConditionTrue {
		return yes // once initialized, always
	}
	return corev1.PodCondition{
		Type: corev1.PodInitialized, Status: corev1.ConditionFalse,
		Reason: "ContainersNotInitialized", Message: fmt.Sprintf("containers with incomplete status: %s", incomplete),
	}
}

func (in *Situation) containersReadyCondition(status *corev1.PodStatus) corev1.PodCondition {
	no := corev1.PodCondition{Type: corev1.ContainersReady, Status: corev1.ConditionFalse}
	switch status.Phase {
	case corev1.PodSucceeded:
		no.Reason = "PodCompleted"
		return no
	case corev1.PodFailed:
		no.Reason = "PodFailed"
		return no
	}
	var unready []string
	for i := range status.InitContainerStatuses { // in the order of the spec
		if s := &status.InitContainerStatuses[i]; restart.Sidecar(&in.Pod.Spec.InitContainers[i]) && !s.Ready {
			unready = append(unready, s.Name)
		}
	}
	for i := range in.Pod.Spec.Containers {
		name := in.Pod.Spec.Containers[i].Name
		if s := findStatus(status.ContainerStatuses, name); !s.Ready {
			unready = append(unready, name)
		}
	}
	if len(unready) > 0 {
		no.Reason, no.Message = "ContainersNotReady", fmt.Sprintf("containers with unready status: %s", unready)
		return no
	}
	return corev1.PodCondition{Type: corev1.ContainersReady, Status: corev1.ConditionTrue}
}

// readyCondition is ContainersReady and the pod's readiness gates (KEP-580).
func (in *Situation) readyCondition(others []corev1.PodCondition, containers corev1.PodCondition) corev1.PodCondition {
	ready := containers
	ready.Type = corev1.PodReady
	if ready.Status != corev1.ConditionTrue {
		return ready
	}
	var why []string
	for _, gate := range in.Pod.Spec.ReadinessGates {
		switch c := findCondition(others, gate.ConditionType); {
		case c == nil:
			why = append(why, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", string(gate.ConditionType)))
		case c.Status != corev1.ConditionTrue:
			why = append(why, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %v", string(gate.ConditionType), c.Status))
		}
	}
	if len(why) > 0 {
		ready.Status, ready.Reason = corev1.ConditionFalse, "ReadinessGatesNotReady"
		ready.Message = strings.Join(why, ", ")
	}
	return ready
}
