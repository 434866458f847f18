package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/keelson-dev/keelson/networkpolicy"
	corev1 "k8s.io/api/core/v1"
)

// party is one end of a connection.
type party struct {
	name      string
	pod       *networkpolicy.Pod // nil for an address that is no pod's
	addresses []netip.Addr
}

// find finds a party by its name or address.
func find(c networkpolicy.Cluster, name string) (party, error) {
	address, notAnAddress := netip.ParseAddr(name)
	namespace, pod, ok := strings.Cut(name, "/")
	if !ok {
		namespace, pod = corev1.NamespaceDefault, name
	}
	var names []string
	for _, p := range c.Pods {
		seen, visible := networkpolicy.PodOf(p)
		names = append(names, p.Namespace+"/"+p.Name)
		switch {
		case notAnAddress == nil && visible && slices.Contains(seen.Addresses, address.Unmap()):
			return party{p.Namespace + "/" + p.Name, &seen, []netip.Addr{address.Unmap()}}, nil
		case notAnAddress == nil || p.Namespace != namespace || p.Name != pod:
		case p.Spec.HostNetwork:
			return party{}, fmt.Errorf("pod %s is on the network of its node: ask for the address of the node", name)
		case !visible:
			return party{}, fmt.Errorf("pod %s has no address, or has ended", name)
		default:
			return party{name, &seen, seen.Addresses}, nil
		}
	}
	if notAnAddress == nil {
		return party{name, nil, []netip.Addr{address.Unmap()}}, nil
	}
	return party{}, fmt.Errorf("there is no pod %s/%s; there are %s", namespace, pod, strings.Join(names, ", "))
}

// label names a party and one of its addresses.
func (p party) label(a netip.Addr) string {
	if p.pod == nil || unknown().Contains(a) {
		return p.name
	}
	return fmt.Sprintf("%s (%s)", p.name, a)
}

// port reads a port of the party.
func (p party) port(text string) (uint16, corev1.Protocol, error) {
	name, suffix, _ := strings.Cut(text, "/")
	protocol := corev1.ProtocolTCP
	if suffix != "" {
		protocol = corev1.Protocol(strings.ToUpper(suffix))
	}
	if protocol != corev1.ProtocolTCP && protocol != corev1.ProtocolUDP && protocol != corev1.ProtocolSCTP {
		return 0, "", fmt.Errorf("port %s: the protocol is TCP, UDP or SCTP", text)
	}
	if n, err := strconv.ParseUint(name, 10, 16); err == nil && n > 0 {
		return uint16(n), protocol, nil
	}
	if p.pod != nil {
		for _, port := range p.pod.Ports {
			if port.Name == name && port.Protocol == protocol {
				return port.Number, protocol, nil
			}
		}
	}
	return 0, "", fmt.Errorf("port %s: it is no number from 1 to 65535, and %s has none of that name", text, p.name)
}

// between are the packets of each family that both have.
func between(client, server party, port uint16, protocol corev1.Protocol) (all []networkpolicy.Packet, err error) {
	for _, from := range client.addresses {
		for _, to := range server.addresses {
			if from.BitLen() == to.BitLen() {
				all = append(all, networkpolicy.Packet{From: from, To: netip.AddrPortFrom(to, port), Protocol: protocol})
			}
		}
	}
	if len(all) == 0 {
		return nil, errors.New("they have no addresses of the same family")
	}
	return all, nil
}

// explain writes a verdict, and the rule that it is based on.
func explain(out io.Writer, where, direction string, v networkpolicy.Verdict, c networkpolicy.Cluster) {
	switch v.Reason {
	case networkpolicy.ByDefault:
		fmt.Fprintf(out, "  %s: allowed, as no policy isolates it\n", where)
	case networkpolicy.Exempt:
		fmt.Fprintf(out, "  %s: always allowed\n", where)
	case networkpolicy.Isolated:
		fmt.Fprintf(out, "  %s: denied; no rule of these policies allows it: %s\n", where, names(v.By))
	case networkpolicy.ByRule:
		fmt.Fprintf(out, "  %s: allowed by policy %s, rule %d for %s\n", where, v.Policy, v.Rule+1, direction)
		fmt.Fprintf(out, "    %s\n", ruleText(c, v, direction))
	}
}

func names(all []networkpolicy.Name) string {
	var texts []string
	for _, n := range all {
		texts = append(texts, n.String())
	}
	return strings.Join(texts, ", ")
}

// ruleText is the rule as it stands in the policy.
func ruleText(c networkpolicy.Cluster, v networkpolicy.Verdict, direction string) string {
	for _, p := range c.Policies {
		if p.Namespace != v.Policy.Namespace || p.Name != v.Policy.Name {
			continue
		}
		var rule any
		if direction == "egress" {
			rule = p.Spec.Egress[v.Rule]
		} else {
			rule = p.Spec.Ingress[v.Rule]
		}
		text, err := json.Marshal(rule)
		if err != nil {
			return err.Error()
		}
		return string(text)
	}
	return ""
}
