package endpointslicemirroring

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	netutils "k8s.io/utils/net"

	"github.com/keelson-dev/keelson/controllers/internal/backends"
	"github.com/keelson-dev/keelson/controllers/internal/endpointslices"
)

// plan is what to write. The slices to create and update are our own copies.
type plan struct {
	create, update, delete []*discoveryv1.EndpointSlice
}

// mirror computes the plan for Endpoints.
type mirror struct {
	endpoints *corev1.Endpoints
	most      int      // maximum number of addresses for each set of ports
	groups    []*group // none is empty
	invalid   int      // addresses that are not IPs
	skipped   int      // addresses that are not mirrored, with the invalid ones
}

// group becomes a slice.
type group struct {
	key       groupKey
	ports     []discoveryv1.EndpointPort
	endpoints []discoveryv1.Endpoint
}

type groupKey struct {
	addressType discoveryv1.AddressType
	ports       string
}

// take sorts the addresses into groups.
func (m *mirror) take() {
	for _, subset := range backends.Pack(m.endpoints.Subsets) {
		ports := portsOf(subset.Ports)
		groups := map[discoveryv1.AddressType]*group{}
		taken := 0
		take := func(addresses []corev1.EndpointAddress, ready bool) {
			for i := range addresses {
				if taken >= m.most {
					return
				}
				e, addressType, ok := endpointOf(&addresses[i], ready)
				if !ok {
					m.invalid++
					continue
				}
				if groups[addressType] == nil {
					groups[addressType] = &group{key: groupKey{addressType, endpointslices.PortKey(ports)}, ports: ports}
					m.groups = append(m.groups, groups[addressType])
				}
				groups[addressType].endpoints = append(groups[addressType].endpoints, e)
				taken++
			}
		}
		take(subset.Addresses, true)
		take(subset.NotReadyAddresses, false)
		m.skipped += len(subset.Addresses) + len(subset.NotReadyAddresses) - taken
	}
}

// plan compares the groups with the existing slices, which are in name order.
func (m *mirror) plan(existing []*discoveryv1.EndpointSlice) plan {
	var out plan
	byKey := map[groupKey][]*discoveryv1.EndpointSlice{}
	for _, slice := range existing {
		key := groupKey{slice.AddressType, endpointslices.PortKey(slice.Ports)}
		byKey[key] = append(byKey[key], slice)
	}
	keep := map[string]bool{}
	for _, g := range m.groups {
		next := m.newSlice(g)
		if had := byKey[g.key]; len(had) > 0 {
			keep[had[0].Name] = true
			if !m.upToDate(had[0], g) {
				next.Name, next.GenerateName = had[0].Name, ""
				out.update = append(out.update, next)
			}
			continue
		}
		out.create = append(out.create, next)
	}
	for _, slice := range existing {
		if !keep[slice.Name] {
			out.delete = append(out.delete, slice)
		}
	}
	out.reuse()
	return out
}

// reuse turns pairs of a slice to create and one to delete of the same family into updates.
func (p *plan) reuse() {
	p.create = slices.DeleteFunc(p.create, func(next *discoveryv1.EndpointSlice) bool {
		i := slices.IndexFunc(p.delete, func(old *discoveryv1.EndpointSlice) bool { return old.AddressType == next.AddressType })
		if i < 0 {
			return false
		}
		next.Name = p.delete[i].Name
		p.delete = slices.Delete(p.delete, i, i+1)
		p.update = append(p.update, next)
		return true
	})
}

// upToDate reports whether a slice needs no write.
func (m *mirror) upToDate(slice *discoveryv1.EndpointSlice, g *group) bool {
	missing := endpointslices.NewSet(g.endpoints)
	if _, differ := missing.Keep(slice.Endpoints); differ || missing.Len() > 0 {
		return false
	}
	had := maps.Clone(slice.Labels)
	delete(had, discoveryv1.LabelManagedBy)
	delete(had, discoveryv1.LabelServiceName)
	if !maps.Equal(had, m.endpoints.Labels) || !maps.Equal(slice.Annotations, m.annotations()) {
		return false
	}
	return !slices.ContainsFunc(slice.OwnerReferences, func(ref metav1.OwnerReference) bool { // of older Endpoints
		return ref.Kind == "Endpoints" && ref.Name == m.endpoints.Name && ref.UID != m.endpoints.UID
	})
}

// annotations are those of the Endpoints, without what is about these themselves.
func (m *mirror) annotations() map[string]string {
	out := maps.Clone(m.endpoints.Annotations)
	delete(out, corev1.EndpointsLastChangeTriggerTime)
	delete(out, corev1.LastAppliedConfigAnnotation)
	return out
}

// newSlice returns the slice of a group.
func (m *mirror) newSlice(g *group) *discoveryv1.EndpointSlice {
	labels := maps.Clone(m.endpoints.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[discoveryv1.LabelServiceName], labels[discoveryv1.LabelManagedBy] = m.endpoints.Name, managedBy
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: m.endpoints.Name + "-", Namespace: m.endpoints.Namespace,
			Labels: labels, Annotations: m.annotations(),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(m.endpoints, corev1.SchemeGroupVersion.WithKind("Endpoints"))},
		},
		AddressType: g.key.addressType,
		Ports:       g.ports,
	}
	endpointslices.NewSet(g.endpoints).Fill(slice, m.most)
	return slice
}

// portsOf returns the ports of a slice.
func portsOf(all []corev1.EndpointPort) []discoveryv1.EndpointPort {
	ports := []discoveryv1.EndpointPort{}
	for _, p := range all {
		name, number, protocol := p.Name, p.Port, p.Protocol
		ports = append(ports, discoveryv1.EndpointPort{Name: &name, Port: &number, Protocol: &protocol, AppProtocol: p.AppProtocol})
	}
	return ports
}

// endpointOf returns the endpoint of an address and its family, or false if it is not an IP.
func endpointOf(a *corev1.EndpointAddress, ready bool) (discoveryv1.Endpoint, discoveryv1.AddressType, bool) {
	ip := netutils.ParseIPSloppy(a.IP)
	if ip == nil {
		return discoveryv1.Endpoint{}, "", false
	}
	addressType := discoveryv1.AddressTypeIPv4
	if netutils.IsIPv6(ip) {
		addressType = discoveryv1.AddressTypeIPv6
	}
	e := discoveryv1.Endpoint{
		Addresses: []string{ip.String()}, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
		TargetRef: a.TargetRef, NodeName: a.NodeName,
	}
	if a.Hostname != "" {
		hostname := a.Hostname
		e.Hostname = &hostname
	}
	return e, addressType, true
}
