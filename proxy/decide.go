package proxy

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Action is what becomes of a packet.
type Action int

// The actions.
const (
	// Pass leaves the packet alone: it is for no service.
	Pass Action = iota
	// Forward sends it to one of the endpoints.
	Forward
	// Reject refuses it, so that its sender learns at once.
	Reject
	// Drop discards it.
	Drop
)

func (a Action) String() string {
	return [...]string{"pass", "forward", "reject", "drop"}[a]
}

// Packet is the first of a connection.
type Packet struct {
	From     netip.Addr     // the client's address
	To       netip.AddrPort // before anything changed it
	Protocol corev1.Protocol
	// FromHost and ToHost: the address is one of the host's own.
	FromHost, ToHost bool
}

// Decision is what becomes of a packet.
type Decision struct {
	Action Action
	// Service and Port are what the packet is for, unless it is for no service.
	Service Service
	Port    string
	// Endpoints are where it may go, each with the same probability unless Sticky.
	Endpoints []netip.AddrPort
	// Sticky: a client that was sent to one of the endpoints a short time ago is sent there again.
	Sticky bool
	// Masquerade: the endpoint sees an address of the host instead of the client's. Hairpin are endpoints that do even
	// without, because the packet comes from themselves.
	Masquerade bool
	Hairpin    []netip.AddrPort
}

// Decide says what becomes of a packet. It looks at every service.
func (t *Tables) Decide(p Packet) Decision {
	return Decide(t.Settings, t.claims(p), p)
}

// Claim is a port of a service that a packet may be for.
type Claim struct {
	Service Service
	Port    *Port
}

// claims are the ports of the packet's family, in the order of their services.
func (t *Tables) claims(p Packet) []Claim {
	var all []Claim
	for service, ports := range t.Services {
		for i := range ports {
			if ports[i].Is6() == p.To.Addr().Is6() {
				all = append(all, Claim{service, &ports[i]})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Claim) int { return CompareServices(a.Service, b.Service) })
	return all
}

// Decide is Tables.Decide for who knows which ports a packet may be for: ports of its family, ordered by service, with at
// least those that have its destination as an address, and those that have its port as a node port.
func Decide(s Settings, claims []Claim, p Packet) Decision {
	known := slices.ContainsFunc(claims, func(c Claim) bool { return c.Port.ClusterIP == p.To.Addr() })
	allocatable := contains(s.Services, p.To.Addr())
	if (known || allocatable) && s.PodsOnly && !p.FromHost && !s.pod(p.From) {
		return Decision{} // it may be another cluster's
	}
	if d, ok := s.byAddress(claims, p); ok {
		d.Masquerade = d.Masquerade || d.Action == Forward && known && s.masqueradesInternal(p)
		return d
	}
	if p.ToHost && s.servesNodePorts(p.To.Addr()) {
		for _, c := range claims {
			if c.Port.NodePort != 0 && c.Port.NodePort == p.To.Port() && c.Port.Protocol == p.Protocol {
				return s.external(c, p)
			}
		}
	}
	switch {
	case known: // a port that the service does not have
		return Decision{Action: Reject}
	case allocatable:
		return Decision{Action: Drop}
	}
	return Decision{}
}

// byAddress decides by addresses of services.
func (s Settings) byAddress(claims []Claim, p Packet) (Decision, bool) {
	for _, c := range claims {
		switch {
		case c.Port.Port != p.To.Port() || c.Port.Protocol != p.Protocol:
		case c.Port.ClusterIP == p.To.Addr():
			return c.to(p, c.Port.Internal(), false), true
		case slices.Contains(c.Port.LoadBalancers, p.To.Addr()):
			if len(c.Port.Sources) > 0 && !contains(c.Port.Sources, p.From) {
				return Decision{Action: Drop, Service: c.Service, Port: c.Port.Name}, true
			}
			return s.external(c, p), true
		case slices.Contains(c.Port.External, p.To.Addr()):
			return s.external(c, p), true
		}
	}
	return Decision{}, false
}

// masqueradesInternal reports whether the packet is masqueraded if it is for a cluster IP. It is even if a service has that as
// one of its external addresses.
func (s Settings) masqueradesInternal(p Packet) bool {
	return s.MasqueradeAll || len(s.podsOf(p.From)) > 0 && !s.pod(p.From)
}

func (s Settings) external(c Claim, p Packet) Decision {
	switch {
	case !c.Port.ExternalLocal:
		return c.to(p, c.Port.Cluster, true)
	case s.pod(p.From):
		return c.to(p, c.Port.Cluster, false)
	case p.FromHost:
		return c.to(p, c.Port.Cluster, true)
	}
	return c.to(p, c.Port.Local, false)
}

// to decides given the endpoints.
func (c Claim) to(p Packet, endpoints []netip.AddrPort, masquerade bool) Decision {
	d := Decision{Service: c.Service, Port: c.Port.Name}
	if len(endpoints) == 0 {
		d.Action = c.Port.Unserved()
		return d
	}
	d.Action, d.Endpoints, d.Masquerade, d.Sticky = Forward, endpoints, masquerade, c.Port.Affinity > 0
	for _, e := range endpoints {
		if e.Addr() == p.From && slices.Contains(c.Port.Own, e) {
			d.Hairpin = append(d.Hairpin, e)
		}
	}
	return d
}

// podsOf are the ranges of pods of the address's family.
func (s Settings) podsOf(a netip.Addr) (same []netip.Prefix) {
	for _, p := range s.Pods {
		if p.Addr().Is6() == a.Is6() {
			same = append(same, p)
		}
	}
	return same
}

func (s Settings) pod(a netip.Addr) bool { return contains(s.Pods, a) }

// servesNodePorts reports whether an address of the host does.
func (s Settings) servesNodePorts(a netip.Addr) bool {
	return !a.IsLoopback() && (len(s.NodePorts) == 0 || contains(s.NodePorts, a))
}

func contains(ranges []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Contains(a) })
}
