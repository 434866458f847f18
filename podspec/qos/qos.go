// Package qos says which quality-of-service class a pod has. An API server records it in the pod's status, and a kubelet
// limits, ranks and evicts pods by it.
//
// Everything here is a pure function of its arguments.
package qos

import (
	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// Class returns the class in a pod's status, or else the one that Compute returns.
func Class(pod *corev1.Pod) corev1.PodQOSClass {
	if pod.Status.QOSClass != "" {
		return pod.Status.QOSClass
	}
	return Compute(pod)
}

// Compute returns the class that follows from the CPU and memory requests and limits of a pod, whatever its status says.
// Pod-level resources (KEP-2837) alone decide if any are set; otherwise all containers and init containers must agree for
// a class other than Burstable. Requests count as they are: a missing one is not taken from the limit, which an API
// server's defaults do.
func Compute(pod *corev1.Pod) corev1.PodQOSClass {
	if resourcehelper.IsPodLevelResourcesSet(pod) {
		return ofRequirements(pod.Spec.Resources)
	}
	var class corev1.PodQOSClass
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			class = merge(class, ofRequirements(&list[i].Resources))
		}
	}
	if class == "" {
		return corev1.PodQOSBestEffort
	}
	return class
}

func merge(a, b corev1.PodQOSClass) corev1.PodQOSClass {
	if a == "" || a == b {
		return b
	}
	return corev1.PodQOSBurstable
}

func ofRequirements(r *corev1.ResourceRequirements) corev1.PodQOSClass {
	var class corev1.PodQOSClass
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		request, limit := r.Requests[name], r.Limits[name]
		switch {
		case !request.Equal(limit):
			return corev1.PodQOSBurstable
		case request.IsZero():
			class = merge(class, corev1.PodQOSBestEffort)
		default:
			class = merge(class, corev1.PodQOSGuaranteed)
		}
	}
	return class
}
