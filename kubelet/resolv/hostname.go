package resolv

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// maxHostname is the maximum number of characters on Linux.
const maxHostname = 63

// maxFQDN is the maximum length of a hostname that includes the domain.
const maxFQDN = 64

// Hostname returns a pod's name on the network, and its domain, which is empty for pods without a subdomain.
func Hostname(pod *corev1.Pod, clusterDomain string) (hostname, domain string, err error) {
	if o := pod.Spec.HostnameOverride; o != nil {
		if problems := validation.IsDNS1123Subdomain(*o); len(problems) > 0 {
			return "", "", fmt.Errorf("pod HostnameOverride %q is not a valid DNS subdomain: %s", *o, strings.Join(problems, ";"))
		}
		hostname, err = truncate(pod.Name, *o)
		return hostname, "", err
	}
	hostname = pod.Name
	if h := pod.Spec.Hostname; h != "" {
		if problems := validation.IsDNS1123Label(h); len(problems) > 0 {
			return "", "", fmt.Errorf("pod Hostname %q is not a valid DNS label: %s", h, strings.Join(problems, ";"))
		}
		hostname = h
	}
	if hostname, err = truncate(pod.Name, hostname); err != nil {
		return "", "", err
	}
	if s := pod.Spec.Subdomain; s != "" {
		if problems := validation.IsDNS1123Label(s); len(problems) > 0 {
			return "", "", fmt.Errorf("pod Subdomain %q is not a valid DNS label: %s", s, strings.Join(problems, ";"))
		}
		domain = fmt.Sprintf("%s.%s.svc.%s", s, pod.Namespace, clusterDomain)
	}
	return hostname, domain, nil
}

func truncate(pod, hostname string) (string, error) {
	if len(hostname) <= maxHostname {
		return hostname, nil
	}
	cut := strings.TrimRight(hostname[:maxHostname], "-.")
	if cut == "" {
		return "", fmt.Errorf("hostname for pod %q was invalid: %q", pod, hostname)
	}
	return cut, nil
}

// KernelHostname returns the hostname that the pod's processes see: with the domain if the pod has one and requests
// that. It fails if the name is too long for Linux. The pod's network has this name unless it is the node's.
func KernelHostname(pod *corev1.Pod, hostname, domain string) (string, error) {
	if pod.Spec.SetHostnameAsFQDN == nil || !*pod.Spec.SetHostnameAsFQDN || domain == "" || pod.Spec.HostnameOverride != nil {
		return hostname, nil
	}
	fqdn := hostname + "." + domain
	if len(fqdn) > maxFQDN {
		return "", fmt.Errorf("failed to construct FQDN from pod hostname and cluster domain, FQDN %s is too long (%d characters is the max, %d characters requested)",
			fqdn, maxFQDN, len(fqdn))
	}
	return fqdn, nil
}
