package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/internal/check"
)

func endpoints() registry.Kind {
	return registry.Definition[*corev1.Endpoints]{
		Names:        registry.Names{Kind: "Endpoints", Plural: "endpoints", Singular: "endpoints", Short: []string{"ep"}},
		GroupVersion: corev1.SchemeGroupVersion,
		Namespaced:   true,
		Prefix:       "services/endpoints",
		Warning:      "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
		New:          func() *corev1.Endpoints { return &corev1.Endpoints{} },
		NewList:      func() runtime.Object { return &corev1.EndpointsList{} },
		Rules: registry.Rules[*corev1.Endpoints]{
			Default:        defaultEndpoints,
			Validate:       validateEndpoints,
			ValidateUpdate: validateEndpointsUpdate,
			CreateOnUpdate: true,
		},
		Columns: endpointsColumns(),
	}.Kind()
}

func defaultEndpoints(e *corev1.Endpoints) {
	for i := range e.Subsets {
		for j := range e.Subsets[i].Ports {
			if port := &e.Subsets[i].Ports[j]; port.Protocol == "" {
				port.Protocol = corev1.ProtocolTCP
			}
		}
	}
}

// validateEndpointsUpdate accepts subsets that were accepted before.
func validateEndpointsUpdate(e, old *corev1.Endpoints) field.ErrorList {
	errs := validateEndpoints(e)
	if len(errs) > 0 && equality.Semantic.DeepEqual(e.Subsets, old.Subsets) {
		return nil
	}
	return errs
}

func validateEndpoints(e *corev1.Endpoints) field.ErrorList {
	var errs field.ErrorList
	for i := range e.Subsets {
		subset, path := &e.Subsets[i], field.NewPath("subsets").Index(i)
		if len(subset.Addresses) == 0 && len(subset.NotReadyAddresses) == 0 {
			errs = append(errs, field.Required(path, "must specify `addresses` or `notReadyAddresses`"))
		}
		for j := range subset.Addresses {
			errs = append(errs, validateEndpointAddress(&subset.Addresses[j], path.Child("addresses").Index(j))...)
		}
		for j := range subset.NotReadyAddresses {
			errs = append(errs, validateEndpointAddress(&subset.NotReadyAddresses[j], path.Child("notReadyAddresses").Index(j))...)
		}
		for j := range subset.Ports {
			errs = append(errs, validateEndpointPort(&subset.Ports[j], len(subset.Ports) > 1, path.Child("ports").Index(j))...)
		}
	}
	return errs
}

func validateEndpointAddress(a *corev1.EndpointAddress, path *field.Path) field.ErrorList {
	errs := check.IP(path.Child("ip"), a.IP, nil)
	if a.Hostname != "" {
		errs = append(errs, check.DNSLabel(path.Child("hostname"), a.Hostname)...)
	}
	if a.NodeName != nil {
		errs = append(errs, check.NodeName(path.Child("nodeName"), *a.NodeName)...)
	}
	return append(errs, check.EndpointIP(path.Child("ip"), a.IP)...)
}

func validateEndpointPort(p *corev1.EndpointPort, named bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if p.Name != "" {
		errs = append(errs, check.DNSLabel(path.Child("name"), p.Name)...)
	} else if named {
		errs = append(errs, field.Required(path.Child("name"), ""))
	}
	errs = append(errs, check.PortNumber(path.Child("port"), p.Port)...)
	errs = append(errs, check.Protocol(path.Child("protocol"), p.Protocol)...)
	if p.AppProtocol != nil {
		errs = append(errs, check.QualifiedName(path.Child("appProtocol"), *p.AppProtocol)...)
	}
	return errs
}
