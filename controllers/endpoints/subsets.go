package endpoints

import (
	"maps"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
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
		terminating := pod.DeletionTimestamp != nil && !service.Spec.PublishNotReadyAddresses
		if terminating || !backends.Reachable(pod) {
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
	return backends.Pack(loose)
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
	return equality.Semantic.DeepEqual(had, wanted) || equality.Semantic.DeepEqual(backends.Pack(had), wanted)
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
