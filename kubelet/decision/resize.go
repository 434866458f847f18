package decision

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// MessageResize says why no pod is resized.
const MessageResize = "In-place pod resize is not supported on this node"

// Hold returns the newest state of a pod with the resources that it was admitted with. Resources requested since then
// are not granted; a condition says so for as long as they are requested.
func Hold(pod, admitted *corev1.Pod) *corev1.Pod {
	asks := !SameResources(&pod.Spec, &admitted.Spec)
	said := findCondition(pod.Status.Conditions, corev1.PodResizePending)
	if !asks && said == nil {
		return pod
	}
	held := pod.DeepCopy()
	held.Status.Conditions = slices.DeleteFunc(held.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodResizePending
	})
	if !asks {
		return held
	}
	giveResources(&held.Spec, &admitted.Spec)
	pending := corev1.PodCondition{
		Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible, Message: MessageResize,
	}
	if said != nil {
		pending.LastTransitionTime = said.LastTransitionTime
	}
	held.Status.Conditions = append(held.Status.Conditions, pending)
	return held
}

// HeldBefore returns a pod that is new to this kubelet with the resources that an earlier kubelet held it to: if the
// API says that a resize was refused, these are in the containers' statuses.
func HeldBefore(pod *corev1.Pod) *corev1.Pod {
	if findCondition(pod.Status.Conditions, corev1.PodResizePending) == nil {
		return pod
	}
	admitted := pod.DeepCopy()
	adopt := func(containers []corev1.Container, statuses []corev1.ContainerStatus) {
		for i := range containers {
			if s := findStatus(statuses, containers[i].Name); s != nil && s.Resources != nil {
				containers[i].Resources.Requests, containers[i].Resources.Limits = s.Resources.Requests, s.Resources.Limits
			}
		}
	}
	adopt(admitted.Spec.InitContainers, admitted.Status.InitContainerStatuses)
	adopt(admitted.Spec.Containers, admitted.Status.ContainerStatuses)
	return Hold(pod, admitted)
}

// SameResources reports whether two states of a pod request the same resources.
func SameResources(a, b *corev1.PodSpec) bool {
	same := func(a, b []corev1.Container) bool {
		for i := range min(len(a), len(b)) {
			if !equality.Semantic.DeepEqual(a[i].Resources, b[i].Resources) {
				return false
			}
		}
		return true
	}
	return same(a.Containers, b.Containers) && same(a.InitContainers, b.InitContainers) && equality.Semantic.DeepEqual(a.Resources, b.Resources)
}

// giveResources sets a pod's resources to those of another state of it, which has the same containers.
func giveResources(to, from *corev1.PodSpec) {
	set := func(to, from []corev1.Container) {
		for i := range min(len(to), len(from)) {
			to[i].Resources = *from[i].Resources.DeepCopy()
		}
	}
	set(to.Containers, from.Containers)
	set(to.InitContainers, from.InitContainers)
	to.Resources = from.Resources.DeepCopy()
}
