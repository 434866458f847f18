package networkpolicy_test

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/networkpolicy"
	"github.com/keelson-dev/keelson/networkpolicy/internal/random"
)

// oracle answers from the objects themselves, as the API's documentation says, with no regard to cost.
type oracle networkpolicy.Cluster

func (o oracle) allowed(p networkpolicy.Packet) bool {
	if p.Host || p.From == p.To.Addr() {
		return true
	}
	from, to := o.pod(p.From), o.pod(p.To.Addr())
	return o.side(from, networkingv1.PolicyTypeEgress, to, p.To.Addr(), to, p) && o.side(to, networkingv1.PolicyTypeIngress, from, p.From, to, p)
}

func (o oracle) pod(a netip.Addr) *corev1.Pod {
	for _, p := range o.Pods {
		alive := !p.Spec.HostNetwork && p.Status.Phase != corev1.PodFailed && p.Status.Phase != corev1.PodSucceeded
		if alive && slices.Contains(p.Status.PodIPs, corev1.PodIP{IP: a.String()}) {
			return p
		}
	}
	return nil
}

func (o oracle) side(pod *corev1.Pod, direction networkingv1.PolicyType, peer *corev1.Pod, address netip.Addr, target *corev1.Pod, packet networkpolicy.Packet) bool {
	if pod == nil {
		return true
	}
	isolated := false
	for _, p := range o.Policies {
		types := p.Spec.PolicyTypes
		if types == nil {
			types = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
			if len(p.Spec.Egress) > 0 {
				types = append(types, networkingv1.PolicyTypeEgress)
			}
		}
		if p.Namespace != pod.Namespace || !matches(&p.Spec.PodSelector, pod.Labels) || !slices.Contains(types, direction) {
			continue
		}
		isolated = true
		allows := func(peers []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort) bool {
			return o.hasPeer(p.Namespace, peers, peer, address) && hasPort(ports, target, packet)
		}
		for _, r := range p.Spec.Ingress {
			if direction == networkingv1.PolicyTypeIngress && allows(r.From, r.Ports) {
				return true
			}
		}
		for _, r := range p.Spec.Egress {
			if direction == networkingv1.PolicyTypeEgress && allows(r.To, r.Ports) {
				return true
			}
		}
	}
	return !isolated
}

func matches(s *metav1.LabelSelector, l map[string]string) bool {
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && selector.Matches(labels.Set(l))
}

func (o oracle) hasPeer(namespace string, peers []networkingv1.NetworkPolicyPeer, pod *corev1.Pod, address netip.Addr) bool {
	for _, p := range peers {
		if p.IPBlock != nil {
			within := func(cidr string) bool {
				_, n, err := net.ParseCIDR(cidr)
				return err == nil && n.Contains(address.AsSlice())
			}
			if within(p.IPBlock.CIDR) && !slices.ContainsFunc(p.IPBlock.Except, within) {
				return true
			}
			continue
		}
		if pod == nil || p.NamespaceSelector == nil && pod.Namespace != namespace {
			continue
		}
		if p.NamespaceSelector != nil {
			at := slices.IndexFunc(o.Namespaces, func(n *corev1.Namespace) bool { return n.Name == pod.Namespace })
			if !matches(p.NamespaceSelector, o.Namespaces[at].Labels) {
				continue
			}
		}
		if p.PodSelector == nil || matches(p.PodSelector, pod.Labels) {
			return true
		}
	}
	return len(peers) == 0
}

func hasPort(ports []networkingv1.NetworkPolicyPort, target *corev1.Pod, packet networkpolicy.Packet) bool {
	for _, p := range ports {
		protocol := corev1.ProtocolTCP
		if p.Protocol != nil {
			protocol = *p.Protocol
		}
		to := int32(packet.To.Port())
		switch {
		case protocol != packet.Protocol:
		case p.Port == nil:
			return true
		case p.Port.Type == intstr.String:
			if target == nil {
				continue
			}
			for _, c := range target.Spec.Containers {
				for _, port := range c.Ports {
					if port.Name == p.Port.StrVal && port.ContainerPort == to && (port.Protocol == protocol || port.Protocol == "" && protocol == corev1.ProtocolTCP) {
						return true
					}
				}
			}
		case p.EndPort == nil && p.Port.IntVal == to, p.EndPort != nil && p.Port.IntVal <= to && to <= *p.EndPort:
			return true
		}
	}
	return len(ports) == 0
}

// some is a random cluster and the addresses that its packets come from and go to, of which some are nobody's.
func some(s random.Source, policies int) (networkpolicy.Cluster, []netip.Addr) {
	var c networkpolicy.Cluster
	addresses := []netip.Addr{netip.MustParseAddr("192.0.2.9"), netip.MustParseAddr("2001:db8::9")}
	for i, namespace := range random.Namespaces() {
		c.Namespaces = append(c.Namespaces, s.Namespace(namespace))
		for j := range 3 {
			a4, a6 := netip.AddrFrom4([4]byte{10, 64, byte(i), byte(j + 1)}), netip.MustParseAddr(fmt.Sprintf("fd64:%d::%d", i, j+1))
			addresses = append(addresses, a4, a6)
			p := s.Pod(namespace, fmt.Sprintf("pod-%d", j), fmt.Sprintf("node-%d", j%2), a4, a6)
			switch s.IntN(12) {
			case 0:
				p.Spec.HostNetwork = true
			case 1:
				p.Status.Phase = corev1.PodSucceeded
			}
			c.Pods = append(c.Pods, p)
		}
	}
	c.Policies = s.Policies(policies, addresses)
	return c, addresses
}

// packets calls f for all between the addresses.
func packets(addresses []netip.Addr, f func(networkpolicy.Packet)) {
	for _, from := range addresses {
		for _, to := range addresses {
			if from.BitLen() != to.BitLen() {
				continue
			}
			for _, port := range append(random.Ports(), 8500) {
				for _, protocol := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP} {
					f(networkpolicy.Packet{From: from, To: netip.AddrPortFrom(to, port), Protocol: protocol})
				}
			}
		}
	}
}

func TestRandomClusters(t *testing.T) {
	clusters := uint64(200)
	if testing.Short() {
		clusters = 10
	}
	for seed := range clusters {
		c, addresses := some(random.New(seed), 6)
		tables, err := networkpolicy.Compile(c, nil)
		if err != nil {
			t.Fatal(seed, err)
		}
		allowed := 0
		packets(addresses, func(p networkpolicy.Packet) {
			d := tables.Decide(p)
			if want := oracle(c).allowed(p); d.Allowed() != want {
				t.Errorf("seed %d: %+v: %v, want %v", seed, p, d, want)
			} else if want {
				allowed++
			}
		})
		if t.Failed() {
			t.FailNow()
		}
		if allowed == 0 {
			t.Errorf("seed %d: nothing is allowed", seed)
		}
	}
}

// FuzzOf has policies of any shape: what cannot be read allows nothing, and the rest still holds.
func FuzzOf(f *testing.F) {
	f.Add("app", "In", "web", "10.0.0.0/8", "10.1.0.0/16", "http", int32(80), int32(90), "TCP")
	f.Add("", "Exists", "", "::ffff:10.64.0.1/120", "010.64.0.0/24", "", int32(-1), int32(70000), "ICMP")
	f.Add("a/b/c", "NotIn", "x y", "10.64.0.0/33", "", "0", int32(0), int32(0), "")
	f.Fuzz(func(t *testing.T, key, operator, value, cidr, except, name string, port, end int32, protocol string) {
		selector := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: metav1.LabelSelectorOperator(operator), Values: []string{value}}}}
		p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "p"}, Spec: networkingv1.NetworkPolicySpec{
			Ingress: []networkingv1.NetworkPolicyIngressRule{
				{From: []networkingv1.NetworkPolicyPeer{{PodSelector: selector}, {NamespaceSelector: selector}, {IPBlock: &networkingv1.IPBlock{CIDR: cidr, Except: []string{except}}}, {}}},
				{Ports: []networkingv1.NetworkPolicyPort{
					{Protocol: new(corev1.Protocol(protocol)), Port: new(intstr.FromInt32(port)), EndPort: &end}, {Port: new(intstr.FromString(name))},
					{EndPort: &end},
				}},
				{Ports: []networkingv1.NetworkPolicyPort{{Port: new(intstr.FromInt32(4242))}}},
			},
		}}
		c, addresses := some(random.New(1), 0)
		c.Policies = append(c.Policies, p)
		tables, err := networkpolicy.Compile(c, nil)
		if err == nil {
			t.Error("no error, though a peer is empty and an endPort has no port")
		}
		packet := networkpolicy.Packet{From: addresses[0], To: netip.AddrPortFrom(addresses[2], 4242), Protocol: corev1.ProtocolTCP}
		if !tables.Decide(packet).Allowed() {
			t.Errorf("the rule that can be read is not in effect: %v", err)
		}
		packets(addresses, func(p networkpolicy.Packet) { tables.Decide(p) })
	})
}
