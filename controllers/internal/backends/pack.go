package backends

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// identity distinguishes addresses: pods on the host's network share an IP.
type identity struct {
	ip  string
	uid types.UID
}

func identityOf(a corev1.EndpointAddress) identity {
	if a.TargetRef == nil {
		return identity{ip: a.IP}
	}
	return identity{a.IP, a.TargetRef.UID}
}

// portGroup is a port and the addresses that have it, with their readiness.
type portGroup struct {
	port  *corev1.EndpointPort // nil means no port
	ready map[identity]bool
}

// portKey distinguishes ports; its zero value means no port.
type portKey struct {
	some      bool
	name, app string
	hasApp    bool
	port      int32
	protocol  corev1.Protocol
}

func portKeyOf(port *corev1.EndpointPort) portKey {
	if port == nil {
		return portKey{}
	}
	key := portKey{some: true, name: port.Name, port: port.Port, protocol: port.Protocol, hasApp: port.AppProtocol != nil}
	if key.hasApp {
		key.app = *port.AppProtocol
	}
	return key
}

// Pack brings subsets into their canonical form: ports that the same addresses have, in the same state, share a subset.
// An address that is both ready and unready for a port is unready. The sort orders are upstream's: addresses by IP and
// uid, ports and subsets by a hash.
func Pack(loose []corev1.EndpointSubset) []corev1.EndpointSubset {
	addresses := map[identity]corev1.EndpointAddress{}
	byPort := map[portKey]*portGroup{}
	add := func(port *corev1.EndpointPort, address corev1.EndpointAddress, ready bool) {
		id, key := identityOf(address), portKeyOf(port)
		if _, known := addresses[id]; !known {
			addresses[id] = address
		}
		if byPort[key] == nil {
			byPort[key] = &portGroup{port: port, ready: map[identity]bool{}}
		}
		if had, known := byPort[key].ready[id]; !known || had {
			byPort[key].ready[id] = ready
		}
	}
	for _, subset := range loose {
		ports := make([]*corev1.EndpointPort, 0, 1)
		for i := range subset.Ports {
			ports = append(ports, &subset.Ports[i])
		}
		if len(ports) == 0 {
			ports = append(ports, nil)
		}
		for _, port := range ports {
			for _, address := range subset.Addresses {
				add(port, address, true)
			}
			for _, address := range subset.NotReadyAddresses {
				add(port, address, false)
			}
		}
	}
	return join(addresses, byPort)
}

// join combines ports that have the same addresses into subsets.
func join(addresses map[identity]corev1.EndpointAddress, byPort map[portKey]*portGroup) []corev1.EndpointSubset {
	packed := map[string]*corev1.EndpointSubset{}
	for _, group := range byPort {
		ids := slices.SortedFunc(maps.Keys(group.ready), func(a, b identity) int {
			return cmp.Or(strings.Compare(a.ip, b.ip), cmp.Compare(a.uid, b.uid))
		})
		var key strings.Builder
		for _, id := range ids {
			fmt.Fprintf(&key, "%s %s %t\n", id.ip, id.uid, group.ready[id])
		}
		subset := packed[key.String()]
		if subset == nil {
			subset = &corev1.EndpointSubset{}
			packed[key.String()] = subset
			for _, id := range ids {
				if group.ready[id] {
					subset.Addresses = append(subset.Addresses, addresses[id])
				} else {
					subset.NotReadyAddresses = append(subset.NotReadyAddresses, addresses[id])
				}
			}
		}
		if group.port != nil {
			subset.Ports = append(subset.Ports, *group.port)
		}
	}
	var out []corev1.EndpointSubset
	for _, subset := range packed {
		sortByHash(subset.Ports)
		out = append(out, *subset)
	}
	sortByHash(out)
	return out
}

// sortByHash sorts values, all of them different, in upstream's order.
func sortByHash[T any](values []T) {
	if len(values) < 2 {
		return // hashing is slow
	}
	type hashed struct {
		value T
		hash  string
	}
	all := make([]hashed, len(values))
	for i, v := range values {
		all[i] = hashed{v, Hash(v)}
	}
	slices.SortFunc(all, func(a, b hashed) int { return strings.Compare(a.hash, b.hash) })
	for i := range all {
		values[i] = all[i].value
	}
}
