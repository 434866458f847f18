// Package rank has what controllers compare pods by to find those that are worth least. All functions are pure.
package rank

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/podspec/restart"
)

// TrueFirst orders what is before what is not.
func TrueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// Phase orders pods that are pending, or have no phase yet, before those of unknown phase and running ones.
func Phase(pod *corev1.Pod) int {
	switch pod.Status.Phase {
	case corev1.PodUnknown:
		return 1
	case corev1.PodRunning:
		return 2
	}
	return 0
}

// CompareRestarts orders pods by the highest restart count of their containers, then of their sidecars.
func CompareRestarts(a, b *corev1.Pod) int {
	containersA, sidecarsA := mostRestarts(a)
	containersB, sidecarsB := mostRestarts(b)
	return cmp.Or(cmp.Compare(containersA, containersB), cmp.Compare(sidecarsA, sidecarsB))
}

func mostRestarts(pod *corev1.Pod) (containers, sidecars int32) {
	for _, s := range pod.Status.ContainerStatuses {
		containers = max(containers, s.RestartCount)
	}
	sidecar := map[string]bool{}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; restart.Sidecar(c) {
			sidecar[c.Name] = true
		}
	}
	for _, s := range pod.Status.InitContainerStatuses {
		if sidecar[s.Name] {
			sidecars = max(sidecars, s.RestartCount)
		}
	}
	return containers, sidecars
}
