package kubelet

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/kubelet/decision"
)

// held is decision.Hold of the next state of a pod; it records an event if that state requests other resources.
func (k *Kubelet) held(pod, before *corev1.Pod) *corev1.Pod {
	if !decision.SameResources(&pod.Spec, &before.Spec) && pod.Generation != before.Generation {
		k.resizeRefused(pod)
	}
	return decision.Hold(pod, before)
}

// resizeRefused is the event that goes with the condition.
func (k *Kubelet) resizeRefused(pod *corev1.Pod) {
	type container struct {
		Name      string                      `json:"name"`
		Resources corev1.ResourceRequirements `json:"resources"`
	}
	var asked struct {
		InitContainers []container `json:"initContainers,omitempty"`
		Containers     []container `json:"containers,omitempty"`
		Generation     int64       `json:"generation"`
		Error          string      `json:"error,omitempty"`
	}
	for _, c := range pod.Spec.InitContainers {
		asked.InitContainers = append(asked.InitContainers, container{c.Name, c.Resources})
	}
	for _, c := range pod.Spec.Containers {
		asked.Containers = append(asked.Containers, container{c.Name, c.Resources})
	}
	asked.Generation, asked.Error = pod.Generation, decision.MessageResize
	summary, err := json.Marshal(asked)
	if err != nil {
		k.log.Warn("describing a resize failed", "pod", pod.Namespace+"/"+pod.Name, "error", err)
	}
	k.podEvent(pod, corev1.EventTypeWarning, "ResizeInfeasible", "Pod resize %s: %s", corev1.PodReasonInfeasible, summary)
}
