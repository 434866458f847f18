package endpoints

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	netutils "k8s.io/utils/net"

	"github.com/keelson-dev/keelson/controllers/internal/backends"
	"github.com/keelson-dev/keelson/controllers/internal/pods"
)

const (
	// managedBy is the label that names the writer of Endpoints.
	managedBy      = "endpoints.kubernetes.io/managed-by"
	controllerName = "endpoint-controller"
	// capacity is the maximum number of addresses in Endpoints.
	capacity = 1000
)

// subsets returns the addresses of a service's pods as packed subsets.
func subsets(service *corev1.Service, selected []*corev1.Pod) []corev1.EndpointSubset {
	var loose []corev1.EndpointSubset
	for _, pod := range selected {
		if pod.DeletionTimestamp != nil || !backends.Reachable(pod) {
			continue
		}
		address, ok := addressOf(service, pod)
		if !ok {
			continue // it has none of the service's IP family
		}
		ready := service.Spec.PublishNotReadyAddresses || pods.Ready(pod)
		if len(service.Spec.Ports) == 0 && service.Spec.ClusterIP == corev1.ClusterIPNone {
			loose = append(loose, single(address, nil, ready))
		}
		for i := range service.Spec.Ports {
			port := &service.Spec.Ports[i]
			number, ok := backends.Port(pod, port)
			if !ok {
				continue
			}
			loose = append(loose, single(address, []corev1.EndpointPort{{
				Name: port.Name, Port: number, Protocol: port.Protocol, AppProtocol: port.AppProtocol,
			}}, ready))
		}
	}
	return pack(loose)
}

func single(address corev1.EndpointAddress, ports []corev1.EndpointPort, ready bool) corev1.EndpointSubset {
	if ready {
		return corev1.EndpointSubset{Addresses: []corev1.EndpointAddress{address}, Ports: ports}
	}
	return corev1.EndpointSubset{NotReadyAddresses: []corev1.EndpointAddress{address}, Ports: ports}
}

// addressOf returns the pod's address in the service's first IP family.
func addressOf(service *corev1.Service, pod *corev1.Pod) (corev1.EndpointAddress, bool) {
	var v6 bool
	switch {
	case len(service.Spec.IPFamilies) > 0:
		v6 = service.Spec.IPFamilies[0] == corev1.IPv6Protocol
	case backends.HasIP(service):
		v6 = netutils.IsIPv6String(service.Spec.ClusterIP)
	default:
		v6 = netutils.IsIPv6String(pod.Status.PodIP)
	}
	for _, podIP := range pod.Status.PodIPs {
		ip := netutils.ParseIPSloppy(podIP.IP)
		if ip == nil || netutils.IsIPv6(ip) != v6 {
			continue
		}
		node := pod.Spec.NodeName
		return corev1.EndpointAddress{
			IP: ip.String(), NodeName: &node, Hostname: backends.Hostname(service, pod),
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		}, true
	}
	return corev1.EndpointAddress{}, false
}

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

// pack brings subsets into their canonical form: ports that the same addresses have, in the same state, share a subset.
// An address that is both ready and unready for a port is unready. The sort orders are upstream's: addresses by IP and
// uid, ports and subsets by a hash.
func pack(loose []corev1.EndpointSubset) []corev1.EndpointSubset {
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
		all[i] = hashed{v, backends.Hash(v)}
	}
	slices.SortFunc(all, func(a, b hashed) int { return strings.Compare(a.hash, b.hash) })
	for i := range all {
		values[i] = all[i].value
	}
}

// upToDate reports whether Endpoints need no write.
func upToDate(current *corev1.Endpoints, service *corev1.Service, wanted []corev1.EndpointSubset) bool {
	if !maps.Equal(current.Labels, labelsFor(service, current.Labels)) {
		return false
	}
	if _, over := current.Annotations[corev1.EndpointsOverCapacity]; over || count(current.Subsets) > capacity {
		return false
	}
	had := current.DeepCopy().Subsets
	for _, subset := range had {
		for _, addresses := range [][]corev1.EndpointAddress{subset.Addresses, subset.NotReadyAddresses} {
			for _, address := range addresses {
				if address.TargetRef != nil {
					address.TargetRef.ResourceVersion = "" // not ours to keep up to date
				}
			}
		}
	}
	return equality.Semantic.DeepEqual(had, wanted) || equality.Semantic.DeepEqual(pack(had), wanted)
}

// labelsFor returns the labels of a service and the managed-by label. The headless label stays as it is in had, since
// it alone is no reason to write.
func labelsFor(service *corev1.Service, had map[string]string) map[string]string {
	out := maps.Clone(service.Labels)
	if out == nil {
		out = map[string]string{}
	}
	delete(out, corev1.IsHeadlessService)
	if value, headless := had[corev1.IsHeadlessService]; headless {
		out[corev1.IsHeadlessService] = value
	}
	out[managedBy] = controllerName
	return out
}

func count(all []corev1.EndpointSubset) int {
	n := 0
	for _, subset := range all {
		n += len(subset.Addresses) + len(subset.NotReadyAddresses)
	}
	return n
}

// desired returns the Endpoints to write.
func desired(current *corev1.Endpoints, service *corev1.Service, wanted []corev1.EndpointSubset, trigger time.Time) *corev1.Endpoints {
	next := current.DeepCopy()
	next.Labels = labelsFor(service, nil)
	if !backends.HasIP(service) {
		next.Labels[corev1.IsHeadlessService] = ""
	}
	next.Annotations = backends.Annotate(next.Annotations, trigger)
	delete(next.Annotations, corev1.EndpointsOverCapacity)
	next.Subsets = wanted
	if count(wanted) > capacity {
		next.Subsets = truncate(wanted)
		next.Annotations[corev1.EndpointsOverCapacity] = "truncated"
	}
	return next
}

// truncate cuts subsets down to capacity, each in proportion: only unready addresses if that suffices, otherwise all of
// these and some ready ones.
func truncate(all []corev1.EndpointSubset) []corev1.EndpointSubset {
	ready, notReady := 0, 0
	for _, subset := range all {
		ready += len(subset.Addresses)
		notReady += len(subset.NotReadyAddresses)
	}
	room, of := capacity-ready, notReady
	if ready > capacity {
		room, of = capacity, ready
	}
	left := room
	share := func(addresses []corev1.EndpointAddress) []corev1.EndpointAddress {
		n := min(len(addresses), left, int(math.Ceil(float64(len(addresses))/float64(of)*float64(room))))
		left -= n
		return addresses[:n]
	}
	out := slices.Clone(all)
	for i := range out {
		if ready > capacity {
			out[i].Addresses, out[i].NotReadyAddresses = share(out[i].Addresses), nil
		} else {
			out[i].NotReadyAddresses = share(out[i].NotReadyAddresses)
		}
	}
	return out
}
