package resolv

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/kubelet"
)

// Names implements kubelet.Resolver.
func (r *Resolver) Names(pod *corev1.Pod) (kubelet.Names, error) {
	hostname, domain, err := Hostname(pod, r.options.Domain)
	if err != nil {
		return kubelet.Names{}, err
	}
	kernel, err := KernelHostname(pod, hostname, domain)
	return kubelet.Names{Hostname: hostname, Domain: domain, Kernel: kernel}, err
}
