package endpointslice

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Plan is the pure part, for tables.
func Plan(service *corev1.Service, pods []*corev1.Pod, existing []*discoveryv1.EndpointSlice, most int) (create, update, remove []*discoveryv1.EndpointSlice, missing []error) {
	p := planner{service: service, addressType: discoveryv1.AddressTypeIPv4, most: most}
	missing = p.take(pods, func(name string) (*corev1.Node, bool) {
		node := &corev1.Node{}
		node.Labels = map[string]string{corev1.LabelTopologyZone: "zone-" + name}
		return node, name != "missing"
	})
	out := p.plan(existing)
	return out.create, out.update, out.delete, missing
}

// HintsFor is a pure part, for tables.
func HintsFor(service *corev1.Service, e *discoveryv1.Endpoint) (*discoveryv1.EndpointHints, bool) {
	return (&planner{service: service}).hintsFor(e)
}
