package endpointslice

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	netutils "k8s.io/utils/net"

	"github.com/keelson-dev/keelson/controllers/internal/backends"
	"github.com/keelson-dev/keelson/controllers/internal/endpointslices"
	"github.com/keelson-dev/keelson/controllers/internal/pods"
)

// plan is what to write for a service's slices of one address type. The slices to create and update are our own copies.
type plan struct {
	create, update, delete []*discoveryv1.EndpointSlice
}

// planner computes the plan for a service and an address type.
type planner struct {
	service     *corev1.Service
	addressType discoveryv1.AddressType
	most        int      // maximum number of endpoints in a slice
	groups      []*group // in the order of their first pod
}

// group holds the endpoints that have the same ports.
type group struct {
	key       string
	ports     []discoveryv1.EndpointPort
	endpoints []discoveryv1.Endpoint // not placed yet
}

// take makes endpoints of the pods. Those on a missing node are left out, with an error each, unless the service
// publishes addresses that are not ready.
func (p *planner) take(selected []*corev1.Pod, node func(string) (*corev1.Node, bool)) (missing []error) {
	for _, pod := range selected {
		if !backends.Reachable(pod) {
			continue
		}
		g := p.group(portsOf(p.service, pod))
		on, ok := node(pod.Spec.NodeName)
		if !ok && !p.service.Spec.PublishNotReadyAddresses {
			missing = append(missing, fmt.Errorf("skipping Pod %s for Service %s/%s: Node %s Not Found",
				pod.Name, p.service.Namespace, p.service.Name, pod.Spec.NodeName))
			continue
		}
		if e := endpointOf(p.service, pod, on, p.addressType); len(e.Addresses) > 0 {
			g.endpoints = append(g.endpoints, e)
		}
	}
	return missing
}

// group returns the group with these ports and creates it if necessary.
func (p *planner) group(ports []discoveryv1.EndpointPort) *group {
	key := endpointslices.PortKey(ports)
	for _, g := range p.groups {
		if g.key == key {
			return g
		}
	}
	g := &group{key: key, ports: ports}
	p.groups = append(p.groups, g)
	return g
}

// plan compares the endpoints with the existing slices of the address type, which are in name order.
func (p *planner) plan(existing []*discoveryv1.EndpointSlice) plan {
	var out plan
	byPorts := map[string][]*discoveryv1.EndpointSlice{}
	for _, slice := range existing {
		if ownedBy(slice, p.service) {
			byPorts[endpointslices.PortKey(slice.Ports)] = append(byPorts[endpointslices.PortKey(slice.Ports)], slice)
		} else {
			out.delete = append(out.delete, slice) // of an older service with the same name
		}
	}
	for _, g := range p.groups {
		p.place(g, byPorts[g.key], &out)
		delete(byPorts, g.key)
	}
	for _, key := range slices.Sorted(maps.Keys(byPorts)) {
		out.delete = append(out.delete, byPorts[key]...)
	}
	if len(existing) == len(out.delete) && len(out.create) == 0 {
		// None would be left: create one without endpoints.
		empty := p.newSlice(nil)
		if len(out.delete) == 1 && sameEmpty(out.delete[0], empty) {
			out.delete = nil
		} else {
			out.create = append(out.create, empty)
		}
	}
	p.setHints(existing, &out)
	p.reuse(&out)
	return out
}

// place puts the endpoints of a group into its slices: existing ones stay where they are; new ones fill slices that
// change anyway, the fullest first, then one slice with room for the rest, then new slices.
func (p *planner) place(g *group, existing []*discoveryv1.EndpointSlice, out *plan) {
	wanted := endpointslices.NewSet(g.endpoints)
	var changed, unchanged []*discoveryv1.EndpointSlice
	for _, slice := range existing {
		kept, differ := wanted.Keep(slice.Endpoints)
		labels, relabeled := p.labels(slice)
		switch {
		case differ && len(kept) == 0:
			out.delete = append(out.delete, slice)
		case differ || relabeled:
			next := slice.DeepCopy()
			next.Endpoints, next.Labels = kept, labels
			changed = append(changed, next)
		default:
			unchanged = append(unchanged, slice)
		}
	}
	fullest := slices.Clone(changed)
	slices.SortStableFunc(fullest, func(a, b *discoveryv1.EndpointSlice) int { return cmp.Compare(len(b.Endpoints), len(a.Endpoints)) })
	for _, slice := range fullest {
		wanted.Fill(slice, p.most)
	}
	for wanted.Len() > 0 {
		if i := bestFit(unchanged, wanted.Len(), p.most); i >= 0 {
			next := unchanged[i].DeepCopy()
			wanted.Fill(next, p.most) // all that remain
			changed = append(changed, next)
			break
		}
		next := p.newSlice(g.ports)
		wanted.Fill(next, p.most)
		out.create = append(out.create, next)
	}
	out.update = append(out.update, changed...)
}

// bestFit returns the slice that n endpoints fill up most without overflowing, or -1. Multiples of a full slice go to
// slices of their own.
func bestFit(all []*discoveryv1.EndpointSlice, n, most int) int {
	best, least := -1, most
	if n >= most {
		return best
	}
	for i, slice := range all {
		if left := most - n - len(slice.Endpoints); left >= 0 && left < least {
			best, least = i, left
		}
	}
	return best
}

// reuse turns pairs of a slice to create and one to delete into updates.
func (p *planner) reuse(out *plan) {
	out.delete = slices.DeleteFunc(out.delete, func(old *discoveryv1.EndpointSlice) bool {
		if len(out.create) == 0 || !ownedBy(old, p.service) {
			return false
		}
		last := len(out.create) - 1
		next := out.create[last]
		next.Name = old.Name
		out.create = out.create[:last]
		out.update = append(out.update, next)
		return true
	})
}

// newSlice returns a slice of the service without endpoints.
func (p *planner) newSlice(ports []discoveryv1.EndpointPort) *discoveryv1.EndpointSlice {
	service := corev1.SchemeGroupVersion.WithKind("Service")
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName:    p.service.Name + "-",
			Namespace:       p.service.Namespace,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(p.service, service)},
		},
		AddressType: p.addressType,
		Ports:       ports,
		Endpoints:   []discoveryv1.Endpoint{},
	}
	if slice.Ports == nil {
		slice.Ports = []discoveryv1.EndpointPort{}
	}
	slice.Labels, _ = p.labels(slice)
	return slice
}

// labels returns those of the service and the reserved ones, and whether the others differ from the slice's.
func (p *planner) labels(slice *discoveryv1.EndpointSlice) (map[string]string, bool) {
	reserved := func(name, _ string) bool {
		return name == discoveryv1.LabelServiceName || name == discoveryv1.LabelManagedBy || name == corev1.IsHeadlessService
	}
	had, out := maps.Clone(slice.Labels), maps.Clone(p.service.Labels)
	maps.DeleteFunc(had, reserved)
	maps.DeleteFunc(out, reserved)
	differ := !maps.Equal(had, out)
	if out == nil {
		out = map[string]string{}
	}
	out[discoveryv1.LabelServiceName], out[discoveryv1.LabelManagedBy] = p.service.Name, managedBy
	if !backends.HasIP(p.service) {
		out[corev1.IsHeadlessService] = ""
	}
	return out, differ
}

func ownedBy(slice *discoveryv1.EndpointSlice, service *corev1.Service) bool {
	return slices.ContainsFunc(slice.OwnerReferences, func(ref metav1.OwnerReference) bool {
		return ref.UID == service.UID && ref.Kind == "Service" && ref.APIVersion == "v1"
	})
}

// sameEmpty compares a slice with one of its address type that has no endpoints, ignoring what we do not set.
func sameEmpty(slice, empty *discoveryv1.EndpointSlice) bool {
	return len(slice.Endpoints) == 0 && len(slice.Ports) == 0 && maps.Equal(slice.Labels, empty.Labels) &&
		equality.Semantic.DeepEqual(slice.OwnerReferences, empty.OwnerReferences)
}

// portsOf returns the target ports of a service on a pod, in upstream's order.
func portsOf(service *corev1.Service, pod *corev1.Pod) []discoveryv1.EndpointPort {
	ports := []discoveryv1.EndpointPort{}
	for i := range service.Spec.Ports {
		port := &service.Spec.Ports[i]
		number, ok := backends.Port(pod, port)
		if !ok {
			continue
		}
		name, protocol := port.Name, port.Protocol
		ports = append(ports, discoveryv1.EndpointPort{Name: &name, Port: &number, Protocol: &protocol, AppProtocol: port.AppProtocol})
	}
	slices.SortFunc(ports, func(a, b discoveryv1.EndpointPort) int { return strings.Compare(backends.Hash(a), backends.Hash(b)) })
	return ports
}

// endpointOf returns the endpoint of a pod. The node may be nil.
func endpointOf(service *corev1.Service, pod *corev1.Pod, node *corev1.Node, addressType discoveryv1.AddressType) discoveryv1.Endpoint {
	serving, terminating := pods.Ready(pod), pod.DeletionTimestamp != nil
	ready := service.Spec.PublishNotReadyAddresses || serving && !terminating
	e := discoveryv1.Endpoint{
		Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &terminating},
		TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
	}
	for _, podIP := range pod.Status.PodIPs {
		if ip := netutils.ParseIPSloppy(podIP.IP).String(); familyOf(ip) == addressType {
			e.Addresses = append(e.Addresses, ip)
		}
	}
	if name := pod.Spec.NodeName; name != "" {
		e.NodeName = &name
	}
	if node != nil {
		if zone := node.Labels[corev1.LabelTopologyZone]; zone != "" {
			e.Zone = &zone
		}
	}
	if hostname := backends.Hostname(service, pod); hostname != "" {
		e.Hostname = &hostname
	}
	return e
}

// familyOf returns the address type of an IP, or "" if it is invalid.
func familyOf(ip string) discoveryv1.AddressType {
	switch {
	case netutils.IsIPv4String(ip):
		return discoveryv1.AddressTypeIPv4
	case netutils.IsIPv6String(ip):
		return discoveryv1.AddressTypeIPv6
	}
	return ""
}
