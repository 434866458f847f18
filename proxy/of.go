package proxy

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Node is what decisions depend on besides services and endpoints: the nodes in one network namespace, mostly one.
type Node struct {
	// Names are the nodes whose endpoints are local.
	Names []string
	// Zone is where they are.
	Zone string
	// Addresses are those of the nodes. Source ranges with one of them also admit the addresses of the load balancer,
	// from which the host reaches itself through it.
	Addresses []netip.Addr
}

// Of returns the ports of a service, for each of its families, given all its endpoint slices. It returns none for
// services that are not proxied. What is not valid in an object, which no API server stores, is ignored.
func Of(service *corev1.Service, slices []*discoveryv1.EndpointSlice, node Node) []Port {
	if service.Spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	var all []Port
	for _, ip := range clusterIPs(service) {
		offered := offers(addressed(slices, ip.Is6()))
		for i := range service.Spec.Ports {
			port := describe(service, &service.Spec.Ports[i], ip)
			port.admit(node)
			port.route(endpoints(offered[portName{port.Name, port.Protocol}], ip.Is6()), node)
			all = append(all, port)
		}
	}
	return all
}

// clusterIPs are the service's addresses, at most one of each family.
func clusterIPs(service *corev1.Service) (all []netip.Addr) {
	texts := service.Spec.ClusterIPs
	if len(texts) == 0 {
		texts = []string{service.Spec.ClusterIP}
	}
	for _, text := range texts {
		ip, ok := address(text)
		if ok && !slices.ContainsFunc(all, func(other netip.Addr) bool { return other.Is6() == ip.Is6() }) {
			all = append(all, ip)
		}
	}
	return all
}

// address reads an address as leniently as upstream: leading zeros are decimal.
func address(text string) (netip.Addr, bool) {
	if a, err := netip.ParseAddr(text); err == nil {
		return a.Unmap(), a.Zone() == ""
	}
	parts := strings.Split(text, ".")
	for i, p := range parts {
		parts[i] = cmp.Or(strings.TrimLeft(p, "0"), "0")
	}
	a, err := netip.ParseAddr(strings.Join(parts, "."))
	return a, err == nil && a.Is4()
}

// addresses are those of the texts that are of the family, sorted.
func addresses(texts []string, is6 bool) (all []netip.Addr) {
	for _, text := range texts {
		if a, ok := address(text); ok && a.Is6() == is6 {
			all = append(all, a)
		}
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all)
}

// describe is the port without its endpoints.
func describe(service *corev1.Service, from *corev1.ServicePort, ip netip.Addr) Port {
	spec := &service.Spec
	p := Port{
		Name: from.Name, Protocol: cmp.Or(from.Protocol, corev1.ProtocolTCP), ClusterIP: ip,
		Port: uint16(from.Port), NodePort: uint16(from.NodePort), //nolint:gosec // validated
		External: addresses(spec.ExternalIPs, ip.Is6()), LoadBalancers: balancers(service, ip.Is6()),
		Sources:       sources(spec.LoadBalancerSourceRanges, ip.Is6()),
		ExternalLocal: externalLocal(spec),
		InternalLocal: spec.InternalTrafficPolicy != nil && *spec.InternalTrafficPolicy == corev1.ServiceInternalTrafficPolicyLocal,
	}
	if spec.SessionAffinity == corev1.ServiceAffinityClientIP {
		p.Affinity = time.Duration(corev1.DefaultClientIPServiceAffinitySeconds) * time.Second
		if c := spec.SessionAffinityConfig; c != nil && c.ClientIP != nil && c.ClientIP.TimeoutSeconds != nil {
			p.Affinity = time.Duration(*c.ClientIP.TimeoutSeconds) * time.Second
		}
	}
	return p
}

func externalLocal(spec *corev1.ServiceSpec) bool {
	accessible := spec.Type == corev1.ServiceTypeLoadBalancer || spec.Type == corev1.ServiceTypeNodePort || len(spec.ExternalIPs) > 0
	return accessible && spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

// balancers are the addresses under which packets from load balancers still arrive.
func balancers(service *corev1.Service, is6 bool) []netip.Addr {
	var texts []string
	for _, ingress := range service.Status.LoadBalancer.Ingress {
		if ingress.IPMode == nil || *ingress.IPMode == corev1.LoadBalancerIPModeVIP {
			texts = append(texts, ingress.IP)
		}
	}
	return addresses(texts, is6)
}

// sources are the ranges of the family. One that has all addresses is as good as none.
func sources(texts []string, is6 bool) (all []netip.Prefix) {
	for _, text := range texts {
		text, bits, ok := strings.Cut(strings.TrimSpace(text), "/")
		a, valid := address(text)
		if !ok || !valid || a.Is6() != is6 {
			continue
		}
		p, err := netip.ParsePrefix(a.String() + "/" + bits)
		if err != nil {
			continue
		}
		if p.Bits() == 0 {
			return nil
		}
		all = append(all, p.Masked())
	}
	slices.SortFunc(all, netip.Prefix.Compare)
	return slices.Compact(all)
}

// admit adds the addresses of the load balancers to the sources if a node is among these.
func (p *Port) admit(node Node) {
	if len(p.LoadBalancers) == 0 {
		p.Sources = nil
	}
	if !slices.ContainsFunc(node.Addresses, func(a netip.Addr) bool { return contains(p.Sources, a) }) {
		return
	}
	for _, a := range p.LoadBalancers {
		p.Sources = append(p.Sources, netip.PrefixFrom(a, a.BitLen()))
	}
	slices.SortFunc(p.Sources, netip.Prefix.Compare)
	p.Sources = slices.Compact(p.Sources)
}

// reachable reports whether the port is served at more than the cluster IP.
func (p *Port) reachable() bool {
	return p.NodePort != 0 || len(p.LoadBalancers) > 0 || len(p.External) > 0
}

// addressed are the slices with addresses of the family, in the order of their names.
func addressed(all []*discoveryv1.EndpointSlice, is6 bool) (same []*discoveryv1.EndpointSlice) {
	want := discoveryv1.AddressTypeIPv4
	if is6 {
		want = discoveryv1.AddressTypeIPv6
	}
	for _, s := range all {
		if s.AddressType == want {
			same = append(same, s)
		}
	}
	slices.SortFunc(same, func(a, b *discoveryv1.EndpointSlice) int { return strings.Compare(a.Name, b.Name) })
	return same
}

// endpoint is one of a port.
type endpoint struct {
	at *discoveryv1.Endpoint
	to netip.AddrPort
}

func yes(b *bool) bool { return b == nil || *b }

func (e endpoint) ready() bool { return yes(e.at.Conditions.Ready) }
func (e endpoint) terminating() bool {
	return e.at.Conditions.Terminating != nil && *e.at.Conditions.Terminating
}

// lingering is set for an endpoint that still serves while it terminates.
func (e endpoint) lingering() bool { return yes(e.at.Conditions.Serving) && e.terminating() }

func (e endpoint) on(node Node) bool {
	return e.at.NodeName != nil && slices.Contains(node.Names, *e.at.NodeName)
}

func protocolOf(p *discoveryv1.EndpointPort) corev1.Protocol {
	if p.Protocol == nil {
		return corev1.ProtocolTCP // the API's default
	}
	return *p.Protocol
}

// portName is what ports of services and of slices have in common.
type portName struct {
	name     string
	protocol corev1.Protocol
}

// offer is a slice with a port of that name.
type offer struct {
	slice *discoveryv1.EndpointSlice
	port  uint16
}

// offers are the slices by the names of their ports, in order. Both may have thousands of ports.
func offers(from []*discoveryv1.EndpointSlice) map[portName][]offer {
	all := map[portName][]offer{}
	for _, slice := range from {
		for i := range slice.Ports {
			p := &slice.Ports[i]
			if p.Name == nil || p.Port == nil || *p.Port <= 0 || *p.Port > 1<<16-1 {
				continue
			}
			name, o := portName{*p.Name, protocolOf(p)}, offer{slice, uint16(*p.Port)}
			if had := all[name]; len(had) == 0 || had[len(had)-1] != o { // one slice may say the same often
				all[name] = append(had, o)
			}
		}
	}
	return all
}

// endpoints are those of a port, sorted by address. Of several with one address, one that does not terminate counts: a new
// pod may have the address of an old one.
func endpoints(from []offer, is6 bool) []endpoint {
	var all []endpoint
	for _, o := range from {
		for i := range o.slice.Endpoints {
			e := &o.slice.Endpoints[i]
			if len(e.Addresses) == 0 {
				continue
			}
			if a, ok := address(e.Addresses[0]); ok && a.Is6() == is6 {
				all = append(all, endpoint{e, netip.AddrPortFrom(a, o.port)})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b endpoint) int { return a.to.Compare(b.to) })
	kept := all[:0]
	for _, e := range all {
		switch last := len(kept) - 1; {
		case last < 0 || kept[last].to != e.to:
			kept = append(kept, e)
		case !e.terminating():
			kept[last] = e
		}
	}
	return kept
}

// route chooses the usable endpoints.
func (p *Port) route(all []endpoint, node Node) {
	if len(all) == 0 {
		return
	}
	where := func(keep func(endpoint) bool) (chosen []netip.AddrPort) {
		for _, e := range all {
			if keep(e) {
				chosen = append(chosen, e.to)
			}
		}
		return chosen
	}
	first := func(choices ...func(endpoint) bool) []netip.AddrPort {
		for _, keep := range choices {
			if chosen := where(keep); len(chosen) > 0 {
				return chosen
			}
		}
		return nil
	}
	p.Serving = where(func(e endpoint) bool { return e.ready() || e.lingering() })
	if !p.InternalLocal || p.reachable() {
		near := nearby(all, node)
		p.Cluster = first(func(e endpoint) bool { return e.ready() && near(e) }, endpoint.lingering)
	}
	if p.InternalLocal || p.ExternalLocal && p.reachable() {
		p.Local = first(func(e endpoint) bool { return e.on(node) && e.ready() }, func(e endpoint) bool { return e.on(node) && e.lingering() })
	}
	p.Own = where(func(e endpoint) bool {
		return e.on(node) && (slices.Contains(p.Cluster, e.to) || slices.Contains(p.Local, e.to))
	})
}

// nearby follows the hints of topology: endpoints for the node if all have a hint for nodes and one is for this node,
// otherwise for the zone in the same way, otherwise all.
func nearby(all []endpoint, node Node) func(endpoint) bool {
	forNode := func(e endpoint) (hinted, here bool) {
		if e.at.Hints == nil {
			return false, false
		}
		for _, h := range e.at.Hints.ForNodes {
			hinted, here = true, here || slices.Contains(node.Names, h.Name)
		}
		return hinted, here
	}
	forZone := func(e endpoint) (hinted, here bool) {
		if e.at.Hints == nil {
			return false, false
		}
		for _, h := range e.at.Hints.ForZones {
			hinted, here = true, here || h.Name == node.Zone
		}
		return hinted, here
	}
	for _, hint := range []func(endpoint) (hinted, here bool){forNode, forZone} {
		complete, near := true, false
		for _, e := range all {
			if e.ready() {
				hinted, here := hint(e)
				complete, near = complete && hinted, near || here
			}
		}
		if complete && near {
			return func(e endpoint) bool { _, here := hint(e); return here }
		}
	}
	return func(endpoint) bool { return true }
}
