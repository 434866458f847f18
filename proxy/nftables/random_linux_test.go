package nftables_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/proxy"
)

// generator makes random services, their slices and the state of the node.
type generator struct {
	*rand.Rand
	n *network
	// local is how many of the pods are on the node, the first ones.
	local int
}

const (
	otherServing = 8081 // where sites serve, too
	maxServices  = 6
)

func (g *generator) chance(p float64) bool { return g.Float64() < p }

func pick[T any](g *generator, all ...T) T { return all[g.IntN(len(all))] }

// some are a random part of all.
func some[T any](g *generator, p float64, all ...T) (chosen []T) {
	for _, one := range all {
		if g.chance(p) {
			chosen = append(chosen, one)
		}
	}
	return chosen
}

// settings are mostly those of a cluster.
func (g *generator) settings() proxy.Settings {
	s := settings()
	if g.chance(0.1) {
		s.Pods = nil
	}
	if g.chance(0.2) {
		s.Services = nil
	}
	if g.chance(0.3) {
		s.NodePorts = some(g, 0.5, netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("10.64.0.0/24"), netip.MustParsePrefix("2001:db8::/64"))
	}
	s.PodsOnly, s.MasqueradeAll = g.chance(0.2), g.chance(0.1)
	return s
}

func (g *generator) node() proxy.Node {
	return proxy.Node{
		Names: []string{"node-1"}, Zone: pick(g, "", "east", "west"),
		Addresses: []netip.Addr{g.n.host.v4, g.n.host.v6},
	}
}

func text(all ...netip.Addr) (texts []string) {
	for _, a := range all {
		texts = append(texts, a.String())
	}
	return texts
}

// name is that of a service by its number.
func numberedName(i int) proxy.Service { return name(fmt.Sprintf("service-%d", i)) }

// service is the one of that number, or nil.
func (g *generator) service(i int) *corev1.Service {
	if g.chance(0.1) {
		return nil
	}
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: numberedName(i).Name}}
	spec := &s.Spec
	spec.Type = pick(g, corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeLoadBalancer)
	v4, v6 := fmt.Sprintf("10.96.0.%d", i+1), fmt.Sprintf("fd96::%d", i+1)
	spec.ClusterIPs = pick(g, []string{v4}, []string{v6}, []string{v4, v6}, []string{v6, v4}, []string{v4, v6})
	switch g.IntN(25) {
	case 0:
		spec.ClusterIPs = []string{corev1.ClusterIPNone}
	case 1:
		spec.Type = corev1.ServiceTypeExternalName
	}
	spec.ClusterIP = spec.ClusterIPs[0]
	g.ports(spec, i)
	external := []string{"198.51.100.1", "198.51.100.2", "198.51.100.3", "2001:db8:1::1", "2001:db8:1::2", "2001:db8:1::3"}
	if g.chance(0.4) {
		spec.ExternalIPs = some(g, 0.4, append(external, "10.96.0.1", "198.51.100.4")...) // the last may be those of others
	}
	if g.chance(0.4) {
		spec.SessionAffinity = corev1.ServiceAffinityClientIP
		spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(pick[int32](g, 600, 10800))}}
	}
	spec.InternalTrafficPolicy = new(pick(g, corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceInternalTrafficPolicyLocal))
	spec.ExternalTrafficPolicy = pick(g, corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal)
	if spec.Type == corev1.ServiceTypeLoadBalancer {
		g.balance(s)
	}
	return s
}

// ports are one to three, of which some share a number.
func (g *generator) ports(spec *corev1.ServiceSpec, service int) {
	taken := map[string]bool{}
	for i := range 1 + g.IntN(3) {
		p := corev1.ServicePort{Name: string(rune('a' + i)), Port: pick[int32](g, 80, 53), Protocol: pick(g, corev1.ProtocolTCP, corev1.ProtocolUDP)}
		if key := fmt.Sprint(p.Port, p.Protocol); !taken[key] {
			taken[key] = true
			if spec.Type != corev1.ServiceTypeClusterIP && spec.Type != corev1.ServiceTypeExternalName {
				p.NodePort = int32(30000 + 10*service + i)
			}
			spec.Ports = append(spec.Ports, p)
		}
	}
}

func (g *generator) balance(s *corev1.Service) {
	vips := []string{"198.51.100.3", "198.51.100.4", "198.51.100.5", "2001:db8:1::3", "2001:db8:1::4", "2001:db8:1::5"}
	for _, vip := range some(g, 0.5, vips...) {
		s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{
			IP: vip, IPMode: pick(g, nil, new(corev1.LoadBalancerIPModeVIP), new(corev1.LoadBalancerIPModeVIP), new(corev1.LoadBalancerIPModeProxy)),
		})
	}
	if g.chance(0.5) {
		s.Spec.LoadBalancerSourceRanges = some(g, 0.3, "192.0.2.2/32", "192.0.2.64/26", "192.0.2.0/24", "10.64.0.0/15", "10.64.0.2/32", "0.0.0.0/0",
			"2001:db8::2/128", "2001:db8::/64", "fd64::/32", "203.0.113.0/24")
	}
}

// slices are up to three of a service, in both families, with endpoints that may be in several.
func (g *generator) slices(s *corev1.Service) (all []*discoveryv1.EndpointSlice) {
	for i := range pick(g, 0, 2, 3, 4, 5) {
		is6 := g.chance(0.5)
		slice := &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: s.Namespace, Name: fmt.Sprintf("%s-%d", s.Name, i)},
			AddressType: discoveryv1.AddressTypeIPv4,
		}
		if is6 {
			slice.AddressType = discoveryv1.AddressTypeIPv6
		}
		for _, p := range s.Spec.Ports {
			if g.chance(0.9) {
				slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &p.Name, Port: new(pick[int32](g, serving, serving, otherServing)), Protocol: &p.Protocol})
			}
		}
		for pod := range len(g.n.sites) { // the first is outside: the host instead
			if g.chance(0.4) {
				slice.Endpoints = append(slice.Endpoints, g.endpoint(pod, is6))
			}
		}
		all = append(all, slice)
	}
	return all
}

func (g *generator) endpoint(number int, is6 bool) discoveryv1.Endpoint {
	at, local := g.n.host, true
	if number > 0 {
		at, local = g.n.sites[number], number <= g.local
	}
	e := discoveryv1.Endpoint{Addresses: text(at.address(is6 != g.chance(0.03))), NodeName: new("node-2")}
	if local {
		e.NodeName = new("node-1")
	}
	if g.chance(0.3) {
		e.Conditions = discoveryv1.EndpointConditions{Ready: new(g.chance(0.5)), Serving: new(g.chance(0.7)), Terminating: new(g.chance(0.6))}
	}
	if g.chance(0.6) {
		e.Hints = &discoveryv1.EndpointHints{}
		for _, zone := range some(g, 0.6, "east", "west") {
			e.Hints.ForZones = append(e.Hints.ForZones, discoveryv1.ForZone{Name: zone})
		}
		for _, node := range some(g, 0.1, "node-1", "node-2") {
			e.Hints.ForNodes = append(e.Hints.ForNodes, discoveryv1.ForNode{Name: node})
		}
	}
	return e
}

// change makes new versions of some services.
func (g *generator) change(p float64, node proxy.Node) map[proxy.Service][]proxy.Port {
	changed := map[proxy.Service][]proxy.Port{}
	for i := range maxServices {
		if !g.chance(p) {
			continue
		}
		var ports []proxy.Port
		if s := g.service(i); s != nil {
			ports = proxy.Of(s, g.slices(s), node)
		}
		changed[numberedName(i)] = ports
	}
	return changed
}

// targets are what there is to ask: all that services are reached by, and what is near.
func (g *generator) targets(tables *proxy.Tables) (all []target) {
	add := func(a netip.Addr, port uint16, protocol corev1.Protocol) {
		if t := (target{netip.AddrPortFrom(a, port), protocol}); port != 0 && !slices.Contains(all, t) {
			all = append(all, t)
		}
	}
	for _, ports := range tables.Services {
		for i := range ports {
			p := &ports[i]
			add(p.ClusterIP, p.Port, p.Protocol)
			if g.chance(0.1) {
				add(p.ClusterIP, 81, p.Protocol)
			}
			for _, a := range p.Addresses() {
				add(a, p.Port, p.Protocol)
			}
			for _, a := range g.n.hostAddresses {
				if a.Is6() == p.Is6() {
					add(a, p.NodePort, p.Protocol)
				}
			}
		}
	}
	add(netip.MustParseAddr("10.96.0.99"), 80, corev1.ProtocolTCP)
	add(netip.MustParseAddr("fd96::99"), 80, corev1.ProtocolUDP)
	add(netip.MustParseAddr("198.51.100.99"), 80, corev1.ProtocolTCP)
	slices.SortFunc(all, target.compare) // services come in any order
	g.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}
