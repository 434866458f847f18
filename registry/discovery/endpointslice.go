package discovery

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/registry"
)

func endpointSlices() registry.Kind {
	return registry.Definition[*discoveryv1.EndpointSlice]{
		Names:        registry.Names{Kind: "EndpointSlice", Plural: "endpointslices", Singular: "endpointslice"},
		GroupVersion: discoveryv1.SchemeGroupVersion,
		Older:        olderSlices(),
		Namespaced:   true,
		New:          func() *discoveryv1.EndpointSlice { return &discoveryv1.EndpointSlice{} },
		NewList:      func() runtime.Object { return &discoveryv1.EndpointSliceList{} },
		Rules: registry.Rules[*discoveryv1.EndpointSlice]{
			Default: defaultPorts,
			PrepareCreate: func(_ context.Context, slice *discoveryv1.EndpointSlice) {
				slice.Generation = 1
				dropTopology(slice, nil)
			},
			PrepareUpdate:  prepareUpdate,
			Validate:       validateCreate,
			ValidateUpdate: validateUpdate,
		},
		Columns: sliceColumns(),
	}.Kind()
}

func defaultPorts(slice *discoveryv1.EndpointSlice) {
	for i := range slice.Ports {
		port := &slice.Ports[i]
		if port.Name == nil {
			port.Name = new("")
		}
		if port.Protocol == nil {
			port.Protocol = new(corev1.ProtocolTCP)
		}
	}
}

// prepareUpdate raises the generation with every change except to annotations.
func prepareUpdate(_ context.Context, slice, old *discoveryv1.EndpointSlice) {
	if slice.AddressType != old.AddressType ||
		!equality.Semantic.DeepEqual(slice.Endpoints, old.Endpoints) ||
		!equality.Semantic.DeepEqual(slice.Ports, old.Ports) ||
		!equality.Semantic.DeepEqual(slice.Labels, old.Labels) {
		slice.Generation = old.Generation + 1
	}
	dropTopology(slice, old)
}

// dropTopology drops deprecatedTopology, which this API version does not write. A node name that was only there
// moves to its field.
func dropTopology(slice, old *discoveryv1.EndpointSlice) {
	before := map[string]bool{}
	if old != nil {
		if equality.Semantic.DeepEqual(old.Endpoints, slice.Endpoints) {
			return
		}
		for _, endpoint := range old.Endpoints {
			if name := endpoint.DeprecatedTopology[corev1.LabelHostname]; name != "" {
				before[name] = true
			}
		}
	}
	for i := range slice.Endpoints {
		endpoint := &slice.Endpoints[i]
		name := endpoint.DeprecatedTopology[corev1.LabelHostname]
		if endpoint.NodeName == nil && before[name] && len(apivalidation.NameIsDNSSubdomain(name, false)) == 0 {
			endpoint.NodeName = &name
		}
		endpoint.DeprecatedTopology = nil
	}
}
