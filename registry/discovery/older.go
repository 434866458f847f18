package discovery

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/api/discovery/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/registry"
)

// olderSlices returns the version that servers stored until 1.21.
func olderSlices() []registry.Older {
	return []registry.Older{{
		GroupVersion: v1beta1.SchemeGroupVersion,
		New:          func() runtime.Object { return &v1beta1.EndpointSlice{} },
		ToStored:     func(obj runtime.Object) registry.Object { return sliceFromV1beta1(obj.(*v1beta1.EndpointSlice)) },
	}}
}

func sliceFromV1beta1(old *v1beta1.EndpointSlice) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{ObjectMeta: old.ObjectMeta, AddressType: discoveryv1.AddressType(old.AddressType)}
	for i := range old.Endpoints {
		e := &old.Endpoints[i]
		out := discoveryv1.Endpoint{
			Addresses: e.Addresses, Conditions: discoveryv1.EndpointConditions(e.Conditions),
			Hostname: e.Hostname, TargetRef: e.TargetRef, NodeName: e.NodeName, Hints: hintsFromV1beta1(e.Hints),
		}
		moveTopology(&out, e.Topology)
		slice.Endpoints = append(slice.Endpoints, out)
	}
	for _, port := range old.Ports {
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort(port))
	}
	return slice
}

// moveTopology moves zone and node from the former labels to their fields.
func moveTopology(e *discoveryv1.Endpoint, topology map[string]string) {
	topology = maps.Clone(topology)
	if zone, ok := topology[corev1.LabelTopologyZone]; ok {
		e.Zone = &zone
		delete(topology, corev1.LabelTopologyZone)
	}
	if e.NodeName != nil && topology[corev1.LabelHostname] == *e.NodeName {
		delete(topology, corev1.LabelHostname)
	}
	if len(topology) > 0 {
		e.DeprecatedTopology = topology
	}
}

func hintsFromV1beta1(old *v1beta1.EndpointHints) *discoveryv1.EndpointHints {
	if old == nil {
		return nil
	}
	hints := &discoveryv1.EndpointHints{}
	for _, zone := range old.ForZones {
		hints.ForZones = append(hints.ForZones, discoveryv1.ForZone(zone))
	}
	for _, node := range old.ForNodes {
		hints.ForNodes = append(hints.ForNodes, discoveryv1.ForNode(node))
	}
	return hints
}
