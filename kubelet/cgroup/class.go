package cgroup

import (
	corev1 "k8s.io/api/core/v1"
)

// Class is a pod's quality-of-service class: the one the API has given it, or else what follows from
// the requests and limits of CPU and memory of the pod, or of all its containers in sum.
func Class(pod *corev1.Pod) corev1.PodQOSClass {
	if pod.Status.QOSClass != "" {
		return pod.Status.QOSClass
	}
	var sum classSum
	if r := pod.Spec.Resources; r != nil {
		sum.add(r.Requests, r.Limits)
		return sum.class()
	}
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			sum.add(list[i].Resources.Requests, list[i].Resources.Limits)
		}
	}
	return sum.class()
}

// classSum adds up what decides about a class.
type classSum struct {
	requests, limits corev1.ResourceList
	unlimited        bool // something lacks a limit
}

func (s *classSum) add(requests, limits corev1.ResourceList) {
	if s.requests == nil {
		s.requests, s.limits = corev1.ResourceList{}, corev1.ResourceList{}
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if q := requests[name]; q.Sign() > 0 {
			q.Add(s.requests[name])
			s.requests[name] = q
		}
		q := limits[name]
		if q.Sign() > 0 {
			q.Add(s.limits[name])
			s.limits[name] = q
		} else {
			s.unlimited = true
		}
	}
}

func (s *classSum) class() corev1.PodQOSClass {
	if len(s.requests) == 0 && len(s.limits) == 0 {
		return corev1.PodQOSBestEffort
	}
	if s.unlimited || len(s.requests) != len(s.limits) {
		return corev1.PodQOSBurstable
	}
	for name, request := range s.requests {
		if limit := s.limits[name]; limit.Cmp(request) != 0 {
			return corev1.PodQOSBurstable
		}
	}
	return corev1.PodQOSGuaranteed
}
