package kubelet

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// ownedCondition reports whether a kubelet alone sets the condition.
func ownedCondition(t corev1.PodConditionType) bool {
	switch t {
	case corev1.PodScheduled, corev1.PodReady, corev1.PodInitialized, corev1.ContainersReady,
		corev1.PodReadyToStartContainers:
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
func (p portrait) setConditions(status *corev1.PodStatus) {
	for _, c := range p.pod.Status.Conditions {
		if !ownedCondition(c.Type) {
			status.Conditions = append(status.Conditions, c)
		}
	}
	if p.evicted != nil && p.evicted.Condition != nil {
		status.Conditions = append(slices.DeleteFunc(status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == p.evicted.Condition.Type
		}), *p.evicted.Condition)
	}
	initialized := p.initializedCondition(status)
	containersReady := p.containersReadyCondition(status)
	ready := p.readyCondition(status.Conditions, containersReady)
	status.Conditions = append(status.Conditions,
		p.sandboxCondition(), initialized, ready, containersReady,
		corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue})
	for i := range status.Conditions {
		if ownedCondition(status.Conditions[i].Type) {
			status.Conditions[i].ObservedGeneration = p.pod.Generation
		}
	}
}

func (p portrait) sandboxCondition() corev1.PodCondition {
	need, _, _, why := sandboxNeeded(p.pod, p.observed)
	if !need {
		return corev1.PodCondition{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue}
	}
	return corev1.PodCondition{
		Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse,
		Reason: "PodSandboxNotReady", Message: why,
	}
}

func (p portrait) initializedCondition(status *corev1.PodStatus) corev1.PodCondition {
	yes := corev1.PodCondition{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}
	var unknown, incomplete []string
	for i := range p.pod.Spec.InitContainers {
		c := &p.pod.Spec.InitContainers[i]
		s := findStatus(status.InitContainerStatuses, c.Name)
		switch {
		case s == nil:
			unknown = append(unknown, c.Name)
		case isSidecar(c) && (s.Started == nil || !*s.Started), !isSidecar(c) && !s.Ready:
			incomplete = append(incomplete, c.Name)
		}
	}
	if status.Phase == corev1.PodSucceeded && len(unknown) == 0 {
		yes.Reason = "PodCompleted"
		return yes
	}
	for _, s := range status.ContainerStatuses {
		if s.State.Running != nil || s.State.Terminated != nil {
			return yes
		}
	}
	why := unmet(unknown, incomplete, "incomplete")
	if why == "" {
		return yes
	}
	if old := findCondition(p.previous.Conditions, corev1.PodInitialized); old != nil && old.Status == corev1.ConditionTrue {
		return yes // once initialized, always
	}
	return corev1.PodCondition{
		Type: corev1.PodInitialized, Status: corev1.ConditionFalse,
		Reason: "ContainersNotInitialized", Message: why,
	}
}

// unmet lists the containers that keep a condition from being true.
func unmet(unknown, failing []string, word string) string {
	var parts []string
	if len(unknown) > 0 {
		parts = append(parts, fmt.Sprintf("containers with unknown status: %s", unknown))
	}
	if len(failing) > 0 {
		parts = append(parts, fmt.Sprintf("containers with %s status: %s", word, failing))
	}
	return strings.Join(parts, ", ")
}

func (p portrait) containersReadyCondition(status *corev1.PodStatus) corev1.PodCondition {
	no := corev1.PodCondition{Type: corev1.ContainersReady, Status: corev1.ConditionFalse}
	var unknown, unready []string
	check := func(c *corev1.Container, list []corev1.ContainerStatus) {
		switch s := findStatus(list, c.Name); {
		case s == nil:
			unknown = append(unknown, c.Name)
		case !s.Ready:
			unready = append(unready, c.Name)
		}
	}
	for i := range p.pod.Spec.InitContainers {
		if c := &p.pod.Spec.InitContainers[i]; isSidecar(c) {
			check(c, status.InitContainerStatuses)
		}
	}
	for i := range p.pod.Spec.Containers {
		check(&p.pod.Spec.Containers[i], status.ContainerStatuses)
	}
	switch {
	case status.Phase == corev1.PodSucceeded && len(unknown) == 0:
		no.Reason = "PodCompleted"
		return no
	case status.Phase == corev1.PodFailed:
		no.Reason = "PodFailed"
		return no
	}
	if why := unmet(unknown, unready, "unready"); why != "" {
		no.Reason, no.Message = "ContainersNotReady", why
		return no
	}
	return corev1.PodCondition{Type: corev1.ContainersReady, Status: corev1.ConditionTrue}
}

// readyCondition is ContainersReady and the pod's readiness gates (KEP-580).
func (p portrait) readyCondition(others []corev1.PodCondition, containers corev1.PodCondition) corev1.PodCondition {
	ready := containers
	ready.Type = corev1.PodReady
	if ready.Status != corev1.ConditionTrue {
		return ready
	}
	var why []string
	for _, gate := range p.pod.Spec.ReadinessGates {
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

// othersChanged reports whether conditions that others set differ.
func othersChanged(a, b []corev1.PodCondition) bool {
	others := func(list []corev1.PodCondition) []corev1.PodCondition {
		return slices.DeleteFunc(slices.Clone(list), func(c corev1.PodCondition) bool { return ownedCondition(c.Type) })
	}
	return !slices.Equal(others(a), others(b))
}
