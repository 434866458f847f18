package kubelet

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/podspec/origin"
)

// fromAPI marks a pod of the API as such, whatever its annotation says: one that passed for static would never be
// evicted, and would be reported only through a mirror.
func fromAPI(pod *corev1.Pod) *corev1.Pod {
	if !origin.Static(pod) {
		return pod
	}
	pod = pod.DeepCopy()
	pod.Annotations[origin.Annotation] = origin.API
	return pod
}
