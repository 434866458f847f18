package discovery

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/keelson-dev/keelson/registry/internal/check"
)

const (
	maxPorts     = 20_000
	maxEndpoints = 1000
	maxAddresses = 100
	maxTopology  = 16
	maxHints     = 8
)

// Rules that upstream states as declarations on the API types come last, whatever their place in the object;
// hence an endpoint's addresses and the address type are at the end.

func validateCreate(slice *discoveryv1.EndpointSlice) field.ErrorList {
	errs := validatePorts(slice.Ports, field.NewPath("ports"))
	errs = append(errs, validateEndpoints(slice, field.NewPath("endpoints"))...)
	errs = append(errs, validateAddressType(slice.AddressType)...)
	return append(errs, countAddresses(slice.Endpoints, field.NewPath("endpoints"))...)
}

func validateUpdate(slice, old *discoveryv1.EndpointSlice) field.ErrorList {
	var errs, last field.ErrorList
	typeErrs := validateAddressType(slice.AddressType)
	if slice.AddressType == "" && old.AddressType != "" {
		last = typeErrs
	} else {
		errs = typeErrs
	}
	if slice.AddressType != old.AddressType {
		last = append(last, field.Invalid(field.NewPath("addressType"), nil, "field is immutable"))
	}
	errs = append(errs, validatePorts(slice.Ports, field.NewPath("ports"))...)
	// Endpoints that were once accepted stay valid.
	if !equality.Semantic.DeepEqual(old.Endpoints, slice.Endpoints) {
		errs = append(errs, validateEndpoints(slice, field.NewPath("endpoints"))...)
		last = append(last, countAddresses(slice.Endpoints, field.NewPath("endpoints"))...)
	}
	return append(errs, last...)
}

func validateAddressType(t discoveryv1.AddressType) field.ErrorList {
	return check.RequiredOneOf(field.NewPath("addressType"), t,
		discoveryv1.AddressTypeFQDN, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6)
}

func validatePorts(ports []discoveryv1.EndpointPort, path *field.Path) field.ErrorList {
	if len(ports) > maxPorts {
		return field.ErrorList{field.TooMany(path, len(ports), maxPorts)}
	}
	var errs field.ErrorList
	names := map[string]bool{}
	for i, port := range ports {
		path := path.Index(i)
		var name string
		if port.Name != nil {
			name = *port.Name
		}
		if name != "" {
			errs = append(errs, check.DNSLabel(path.Child("name"), name)...)
		}
		if names[name] {
			errs = append(errs, field.Duplicate(path.Child("name"), name))
		}
		names[name] = true
		if port.Protocol == nil {
			errs = append(errs, field.Required(path.Child("protocol"), ""))
		} else {
			errs = append(errs, check.OneOf(path.Child("protocol"), *port.Protocol,
				corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)...)
		}
		if port.AppProtocol != nil {
			errs = append(errs, check.QualifiedName(path.Child("appProtocol"), *port.AppProtocol)...)
		}
	}
	return errs
}

func validateEndpoints(slice *discoveryv1.EndpointSlice, path *field.Path) field.ErrorList {
	if len(slice.Endpoints) > maxEndpoints {
		return field.ErrorList{field.TooMany(path, len(slice.Endpoints), maxEndpoints)}
	}
	var errs field.ErrorList
	for i := range slice.Endpoints {
		endpoint, path := &slice.Endpoints[i], path.Index(i)
		for j, address := range endpoint.Addresses {
			errs = append(errs, validateAddress(slice.AddressType, address, path.Child("addresses"), j)...)
		}
		if endpoint.NodeName != nil {
			errs = append(errs, check.NodeName(path.Child("nodeName"), *endpoint.NodeName)...)
		}
		errs = append(errs, validateTopology(endpoint.DeprecatedTopology, path.Child("deprecatedTopology"))...)
		if endpoint.Hostname != nil {
			errs = append(errs, check.DNSLabel(path.Child("hostname"), *endpoint.Hostname)...)
		}
		if endpoint.Hints != nil {
			errs = append(errs, validateHints(endpoint.Hints, path.Child("hints"))...)
		}
	}
	return errs
}

// validateAddress validates an address by its type; any address is valid for an unknown type.
func validateAddress(t discoveryv1.AddressType, address string, path *field.Path, index int) field.ErrorList {
	var errs field.ErrorList
	switch t {
	case discoveryv1.AddressTypeIPv4:
		if errs = check.IP(path.Index(index), address, nil); len(errs) > 0 {
			return errs
		}
		if !netutils.IsIPv4String(address) {
			errs = append(errs, field.Invalid(path, address, "must be an IPv4 address"))
		}
		errs = append(errs, check.EndpointIP(path.Index(index), address)...)
	case discoveryv1.AddressTypeIPv6:
		if errs = validation.IsValidIP(path.Index(index), address); len(errs) > 0 {
			return errs
		}
		if !netutils.IsIPv6String(address) {
			errs = append(errs, field.Invalid(path, address, "must be an IPv6 address"))
		}
		errs = append(errs, check.EndpointIP(path.Index(index), address)...)
	case discoveryv1.AddressTypeFQDN:
		errs = validation.IsFullyQualifiedDomainName(path.Index(index), address)
	}
	return errs
}

func validateTopology(topology map[string]string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(topology) > maxTopology {
		errs = append(errs, field.TooMany(path, len(topology), maxTopology))
	}
	errs = append(errs, metavalidation.ValidateLabels(topology, path)...)
	if _, found := topology[corev1.LabelTopologyZone]; found {
		errs = append(errs, field.InternalError(path.Key(corev1.LabelTopologyZone), fmt.Errorf("reserved key was not removed in conversion")))
	}
	return errs
}

func validateHints(hints *discoveryv1.EndpointHints, path *field.Path) field.ErrorList {
	zones := path.Child("forZones")
	if len(hints.ForZones) > maxHints {
		return field.ErrorList{field.TooMany(zones, len(hints.ForZones), maxHints)}
	}
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, zone := range hints.ForZones {
		path := zones.Index(i).Child("name")
		if seen[zone.Name] {
			errs = append(errs, field.Duplicate(path, zone.Name))
		}
		seen[zone.Name] = true
		errs = append(errs, check.Messages(path, zone.Name, validation.IsValidLabelValue(zone.Name))...)
	}
	nodes := path.Child("forNodes")
	if len(hints.ForNodes) > maxHints {
		return append(errs, field.TooMany(nodes, len(hints.ForNodes), maxHints))
	}
	clear(seen)
	for i, node := range hints.ForNodes {
		path := nodes.Index(i).Child("name")
		if seen[node.Name] {
			errs = append(errs, field.Duplicate(path, node.Name))
		}
		seen[node.Name] = true
		errs = append(errs, check.NodeName(path, node.Name)...)
	}
	return errs
}

// countAddresses requires 1 to 100 addresses in every endpoint.
func countAddresses(endpoints []discoveryv1.Endpoint, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range endpoints {
		path := path.Index(i).Child("addresses")
		switch n := len(endpoints[i].Addresses); {
		case n == 0:
			errs = append(errs, field.Required(path, ""))
		case n > maxAddresses:
			errs = append(errs, field.TooMany(path, n, maxAddresses))
		}
	}
	return errs
}
