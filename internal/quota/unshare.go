package quota

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// unshared returns the pod, or a copy if one of its quantities does not fit in 64 bits: those are behind pointers, and
// component-helpers would write its sums into the pod.
func unshared(pod *corev1.Pod) *corev1.Pod {
	spec, status := &pod.Spec, &pod.Status
	large := anyLarge(spec.Overhead) || spec.Resources != nil && anyLarge(spec.Resources.Requests, spec.Resources.Limits) ||
		anyLarge(status.AllocatedResources) || status.Resources != nil && anyLarge(status.Resources.Requests, status.Resources.Limits)
	for _, list := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range list {
			large = large || anyLarge(list[i].Resources.Requests, list[i].Resources.Limits)
		}
	}
	for _, list := range [][]corev1.ContainerStatus{status.ContainerStatuses, status.InitContainerStatuses} {
		for i := range list {
			r := list[i].Resources
			large = large || anyLarge(list[i].AllocatedResources) || r != nil && anyLarge(r.Requests, r.Limits)
		}
	}
	if large {
		return pod.DeepCopy()
	}
	return pod
}

func anyLarge(lists ...corev1.ResourceList) bool {
	for _, list := range lists {
		for _, quantity := range list {
			if isLarge(quantity) {
				return true
			}
		}
	}
	return false
}

// isLarge reports whether copies of a quantity share memory.
func isLarge(q resource.Quantity) bool {
	if _, ok := q.AsInt64(); ok {
		return false
	}
	other := q
	return q.AsDec() == other.AsDec()
}
