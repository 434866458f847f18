package resolv

import corev1 "k8s.io/api/core/v1"

// Hostname implements kubelet.Resolver: the name that the pod's network has, and its domain.
func (r *Resolver) Hostname(pod *corev1.Pod) (hostname, domain string, err error) {
	return Hostname(pod, r.options.Domain)
}
