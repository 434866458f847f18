// Package random makes policies and the objects that they select, for tests. What it makes is valid and selects often.
package random

import (
	"fmt"
	"math/rand/v2"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Ports are those that policies name or avoid: the numbers of named ports, and others.
func Ports() []uint16 { return []uint16{8080, 8081, 9000} }

// Namespaces are the names of namespaces, of which the last has no labels.
func Namespaces() []string { return []string{"x", "y", "z"} }

// Source makes random objects.
type Source struct{ *rand.Rand }

// New returns a Source that always makes the same.
func New(seed uint64) Source { return Source{rand.New(rand.NewPCG(seed, 1))} } //nolint:gosec // not for secrets

func pick[T any](s Source, all ...T) T { return all[s.IntN(len(all))] }

func (s Source) chance(percent int) bool { return s.IntN(100) < percent }

func (s Source) labels(name string) map[string]string {
	all := map[string]string{"name": name}
	if s.chance(60) {
		all["app"] = pick(s, "web", "db")
	}
	if s.chance(40) {
		all["tier"] = pick(s, "front", "back", "")
	}
	return all
}

// Namespace makes a namespace with random labels.
func (s Source) Namespace(name string) *corev1.Namespace {
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelMetadataName: name}}}
	if s.chance(70) {
		n.Labels["app"] = pick(s, "web", "db")
	}
	return n
}

// Pod makes a running pod with random labels, whose port "http" is one of Ports.
func (s Source) Pod(namespace, name, node string, addresses ...netip.Addr) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: s.labels(name)},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c"}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, a := range addresses {
		p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: a.String()})
	}
	if len(addresses) > 0 {
		p.Status.PodIP = addresses[0].String()
	}
	if s.chance(80) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{
			{Name: "http", ContainerPort: int32(pick(s, Ports()...))},
			{Name: "dns", ContainerPort: int32(pick(s, Ports()...)), Protocol: corev1.ProtocolUDP},
		}
	}
	return p
}

// Policies makes up to n policies. Their blocks are about the given addresses.
func (s Source) Policies(n int, addresses []netip.Addr) (all []*networkingv1.NetworkPolicy) {
	for i := range s.IntN(n + 1) {
		all = append(all, s.Policy(fmt.Sprintf("p%d", i), addresses))
	}
	return all
}

// Policy makes one.
func (s Source) Policy(name string, addresses []netip.Addr) *networkingv1.NetworkPolicy {
	p := &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: pick(s, Namespaces()...), Name: name},
		Spec:       networkingv1.NetworkPolicySpec{PodSelector: *s.selector()},
	}
	p.Spec.PolicyTypes = pick(s, nil, nil,
		[]networkingv1.PolicyType{networkingv1.PolicyTypeIngress}, []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
		[]networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress})
	for range s.IntN(3) {
		p.Spec.Ingress = append(p.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{From: s.peers(addresses), Ports: s.ports()})
	}
	for range s.IntN(3) {
		p.Spec.Egress = append(p.Spec.Egress, networkingv1.NetworkPolicyEgressRule{To: s.peers(addresses), Ports: s.ports()})
	}
	return p
}

func (s Source) selector() *metav1.LabelSelector {
	switch s.IntN(5) {
	case 0:
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": pick(s, "web", "db")}}
	case 1:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: "tier", Operator: pick(s, metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn), Values: pick(s, []string{"front"}, []string{"front", "back"}, []string{""}),
		}}}
	case 2:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: pick(s, "app", "tier"), Operator: pick(s, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist),
		}}}
	default:
		return &metav1.LabelSelector{}
	}
}

func (s Source) namespaceSelector() *metav1.LabelSelector {
	switch s.IntN(4) {
	case 0:
		return &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: pick(s, Namespaces()...)}}
	case 1:
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": pick(s, "web", "db")}}
	case 2:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpDoesNotExist}}}
	default:
		return &metav1.LabelSelector{}
	}
}

func (s Source) peers(addresses []netip.Addr) (all []networkingv1.NetworkPolicyPeer) {
	if s.chance(15) {
		return pick(s, nil, []networkingv1.NetworkPolicyPeer{})
	}
	for range 1 + s.IntN(2) {
		switch s.IntN(4) {
		case 0:
			all = append(all, networkingv1.NetworkPolicyPeer{PodSelector: s.selector()})
		case 1:
			all = append(all, networkingv1.NetworkPolicyPeer{NamespaceSelector: s.namespaceSelector()})
		case 2:
			all = append(all, networkingv1.NetworkPolicyPeer{PodSelector: s.selector(), NamespaceSelector: s.namespaceSelector()})
		default:
			all = append(all, networkingv1.NetworkPolicyPeer{IPBlock: s.block(addresses)})
		}
	}
	return all
}

// block is about one of the addresses, and leaves others out.
func (s Source) block(addresses []netip.Addr) *networkingv1.IPBlock {
	a := pick(s, addresses...)
	bits := pick(s, 0, 8, 12, 16, 18, 24, 29, a.BitLen()-2, a.BitLen())
	b := &networkingv1.IPBlock{CIDR: netip.PrefixFrom(a, bits).Masked().String()}
	for range s.IntN(3) {
		if out := pick(s, addresses...); out.BitLen() == a.BitLen() && netip.PrefixFrom(a, bits).Contains(out) && bits < out.BitLen() {
			more := bits + 1 + s.IntN(out.BitLen()-bits)
			b.Except = append(b.Except, netip.PrefixFrom(out, more).Masked().String())
		}
	}
	return b
}

func (s Source) ports() (all []networkingv1.NetworkPolicyPort) {
	if s.chance(30) {
		return pick(s, nil, []networkingv1.NetworkPolicyPort{})
	}
	for range 1 + s.IntN(2) {
		protocol := pick(s, nil, new(corev1.ProtocolTCP), new(corev1.ProtocolUDP), new(corev1.ProtocolSCTP))
		switch s.IntN(5) {
		case 0:
			all = append(all, networkingv1.NetworkPolicyPort{Protocol: protocol})
		case 1:
			all = append(all, networkingv1.NetworkPolicyPort{Protocol: protocol, Port: new(intstr.FromString(pick(s, "http", "dns")))})
		case 2:
			first := int32(pick(s, Ports()...))
			all = append(all, networkingv1.NetworkPolicyPort{Protocol: protocol, Port: new(intstr.FromInt32(first)), EndPort: new(first + int32(s.IntN(1000)))})
		default:
			all = append(all, networkingv1.NetworkPolicyPort{Protocol: protocol, Port: new(intstr.FromInt32(int32(pick(s, Ports()...))))})
		}
	}
	return all
}
