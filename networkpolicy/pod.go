package networkpolicy

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Pod is what policies have to know of a pod.
type Pod struct {
	Namespace, Name string
	// Node is that the pod is on.
	Node   string
	Labels map[string]string
	// Addresses are its own, one of each family it has.
	Addresses []netip.Addr
	// Ports are those with a name.
	Ports []NamedPort
}

// NamedPort is a port of a pod that has a name.
type NamedPort struct {
	PortName

	// Number is where the pod has it.
	Number uint16
}

// PodOf reads a pod. It is false for those that policies do not see: pods that have no address, or no longer use it, and
// those on the network of their node, whose packets are the node's.
func PodOf(p *corev1.Pod) (Pod, bool) {
	if p.Spec.HostNetwork || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return Pod{}, false
	}
	out := Pod{Namespace: p.Namespace, Name: p.Name, Node: p.Spec.NodeName, Labels: p.Labels}
	add := func(text string) {
		if a, err := netip.ParseAddr(text); err == nil && !slices.Contains(out.Addresses, a.Unmap()) {
			out.Addresses = append(out.Addresses, a.Unmap())
		}
	}
	add(p.Status.PodIP)
	for _, ip := range p.Status.PodIPs {
		add(ip.IP)
	}
	for i := range p.Spec.Containers {
		out.addPorts(&p.Spec.Containers[i])
	}
	for i := range p.Spec.InitContainers {
		if c := &p.Spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			out.addPorts(c)
		}
	}
	return out, len(out.Addresses) > 0
}

func (p *Pod) addPorts(c *corev1.Container) {
	for _, port := range c.Ports {
		if port.Name == "" || port.ContainerPort < 1 || port.ContainerPort > 65535 {
			continue
		}
		protocol := port.Protocol
		if protocol == "" {
			protocol = corev1.ProtocolTCP
		}
		p.Ports = append(p.Ports, NamedPort{PortName{port.Name, protocol}, uint16(port.ContainerPort)})
	}
}

// matcher decides which pods a Selection has.
type matcher struct {
	namespace        string
	namespaces, pods labels.Selector
}

func newMatcher(s Selection) matcher {
	return matcher{s.Namespace, parse(s.Namespaces), parse(s.Pods)}
}

// parse reads what a selector has written.
func parse(text string) labels.Selector {
	s, err := labels.Parse(text)
	if err != nil {
		return labels.Nothing()
	}
	return s
}

// has reports whether the pod is selected, given its namespace's labels.
func (m *matcher) has(p *Pod, namespace map[string]string) bool {
	if m.namespace != "" {
		return m.namespace == p.Namespace && m.pods.Matches(labels.Set(p.Labels))
	}
	return m.namespaces.Matches(labels.Set(namespace)) && m.pods.Matches(labels.Set(p.Labels))
}
