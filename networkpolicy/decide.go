package networkpolicy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Packet is the first of a connection, as it is after services have chosen an endpoint.
type Packet struct {
	// From and To are who sends and who receives.
	From netip.Addr
	To   netip.AddrPort
	// Protocol may be another than TCP, UDP and SCTP: then only rules for all ports allow it.
	Protocol corev1.Protocol
	// Host: it comes from the pod's own node, or goes there.
	Host bool
}

// Reason is why a packet may pass, or may not.
type Reason int

// The reasons.
const (
	// ByDefault: no policy isolates the pod.
	ByDefault Reason = iota
	// ByRule of a policy it is allowed.
	ByRule
	// Isolated: the pod is, and no rule allows the packet.
	Isolated
	// Exempt: it is of a pod to itself, or of a pod with its own node.
	Exempt
)

// Verdict is what policies say of a packet in one direction.
type Verdict struct {
	Reason Reason
	// Policy and Rule, counted from 0, are the first that allow it.
	Policy Name
	Rule   int
	// By are the policies that isolate the pod.
	By []Name
}

// Allowed reports whether the packet may pass.
func (v Verdict) Allowed() bool { return v.Reason != Isolated }

// Decision is what policies say of a packet: as one that leaves From, and as one that arrives at To.
type Decision struct{ Egress, Ingress Verdict }

// Allowed reports whether the packet may pass.
func (d Decision) Allowed() bool { return d.Egress.Allowed() && d.Ingress.Allowed() }

func (d Decision) String() string {
	word := "denied"
	if d.Allowed() {
		word = "allowed"
	}
	return fmt.Sprintf("%s: egress %s; ingress %s", word, d.Egress.text("egress"), d.Ingress.text("ingress"))
}

// text says why, in words.
func (v Verdict) text(direction string) string {
	switch v.Reason {
	case ByRule:
		return fmt.Sprintf("allowed by %s, %s[%d]", v.Policy, direction, v.Rule)
	case Isolated:
		var by []string
		for _, n := range v.By {
			by = append(by, n.String())
		}
		return fmt.Sprintf("denied: isolated by %s, and no rule allows it", strings.Join(by, ", "))
	case Exempt:
		return "always allowed"
	default:
		return "allowed by default, as no policy isolates it"
	}
}

// Decide says what policies say of a packet.
func (t *Tables) Decide(p Packet) Decision {
	p.From, p.To = p.From.Unmap(), netip.AddrPortFrom(p.To.Addr().Unmap(), p.To.Port())
	if p.Host || p.From == p.To.Addr() {
		return Decision{Verdict{Reason: Exempt}, Verdict{Reason: Exempt}}
	}
	return Decision{
		Egress:  t.direction(t.Pods[p.From].Egress, func(p *Policy) []Rule { return p.Egress }, p.To.Addr(), p),
		Ingress: t.direction(t.Pods[p.To.Addr()].Ingress, func(p *Policy) []Rule { return p.Ingress }, p.From, p),
	}
}

func (t *Tables) direction(by []Name, rules func(*Policy) []Rule, peer netip.Addr, p Packet) Verdict {
	if len(by) == 0 {
		return Verdict{}
	}
	for _, n := range by {
		policy := t.Policies[n]
		for i, r := range rules(&policy) {
			if t.hasPeer(&r, peer) && t.hasPort(&r, p) {
				return Verdict{Reason: ByRule, Policy: n, Rule: i, By: by}
			}
		}
	}
	return Verdict{Reason: Isolated, By: by}
}

func (t *Tables) hasPeer(r *Rule, peer netip.Addr) bool {
	if r.Everyone {
		return true
	}
	for _, s := range r.Pods {
		if _, ok := slices.BinarySearchFunc(t.Selections[s], peer, netip.Addr.Compare); ok {
			return true
		}
	}
	return slices.ContainsFunc(r.Blocks, func(b Range) bool { return b.Contains(peer) })
}

func (t *Tables) hasPort(r *Rule, p Packet) bool {
	if r.AllPorts {
		return true
	}
	for _, o := range r.Ports {
		if o.Protocol == p.Protocol && o.First <= p.To.Port() && p.To.Port() <= o.Last {
			return true
		}
	}
	for _, n := range r.Named {
		if n.Protocol != p.Protocol {
			continue
		}
		if _, ok := slices.BinarySearchFunc(t.Ports[n], p.To, netip.AddrPort.Compare); ok {
			return true
		}
	}
	return false
}
