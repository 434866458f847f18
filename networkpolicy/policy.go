package networkpolicy

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Name is the name of a policy.
type Name = types.NamespacedName

// CompareNames orders the names of policies.
func CompareNames(a, b Name) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// Policy is what a policy says, whatever the cluster has.
type Policy struct {
	// Pods are those that the policy is for.
	Pods Selection
	// IsolatesIngress and IsolatesEgress: connections to the pods, or from them, need a rule.
	IsolatesIngress, IsolatesEgress bool
	// Ingress and Egress are the rules, in the policy's order.
	Ingress, Egress []Rule
}

// Rule allows connections with some peers to some ports: those of the pod if it is for ingress, of the peer if for egress.
type Rule struct {
	// Everyone is a peer. Otherwise those of Pods and Blocks are.
	Everyone bool
	Pods     []Selection
	Blocks   []Range // sorted, neither overlapping nor adjacent
	// AllPorts of all protocols. Otherwise those of Ports and Named.
	AllPorts bool
	Ports    []PortRange // sorted, neither overlapping nor adjacent
	Named    []PortName  // sorted
}

// Selection says which pods are selected: of one namespace, or of some by their labels.
type Selection struct {
	// Namespace is the only one. If it is empty, Namespaces selects them.
	Namespace string
	// Namespaces and Pods are selectors in the text form of labels.Parse, where the empty one selects all.
	Namespaces, Pods string
}

func (s Selection) String() string {
	where := "namespace " + s.Namespace
	switch {
	case s.Namespace == "" && s.Namespaces == "":
		where = "all namespaces"
	case s.Namespace == "":
		where = "namespaces with " + s.Namespaces
	}
	if s.Pods == "" {
		return "all pods of " + where
	}
	return fmt.Sprintf("pods with %s of %s", s.Pods, where)
}

// Range is a range of addresses of one family.
type Range struct{ First, Last netip.Addr }

// Contains reports whether the address is in the range.
func (r Range) Contains(a netip.Addr) bool {
	return r.First.BitLen() == a.BitLen() && r.First.Compare(a) <= 0 && a.Compare(r.Last) <= 0
}

// PortRange is a range of ports of one protocol.
type PortRange struct {
	Protocol corev1.Protocol
	// First and Last are in the range.
	First, Last uint16
}

// PortName is a port that pods have under that name, each perhaps with another number.
type PortName struct {
	Name     string
	Protocol corev1.Protocol
}

// Of reads a policy. What it cannot read, the API's validation refuses; such a peer or port allows nothing, and such a
// podSelector selects nothing. The error says which, and the Policy is meaningful nevertheless.
func Of(p *networkingv1.NetworkPolicy) (Policy, error) {
	r := reader{namespace: p.Namespace}
	var out Policy
	pods, err := selectorText(&p.Spec.PodSelector)
	if err != nil {
		return Policy{}, fmt.Errorf("podSelector: %w", err)
	}
	out.Pods = Selection{Namespace: p.Namespace, Pods: pods}
	out.IsolatesIngress, out.IsolatesEgress = directions(&p.Spec)
	for i, rule := range p.Spec.Ingress {
		out.Ingress = append(out.Ingress, r.rule(fmt.Sprintf("ingress[%d]", i), "from", rule.From, rule.Ports))
	}
	for i, rule := range p.Spec.Egress {
		out.Egress = append(out.Egress, r.rule(fmt.Sprintf("egress[%d]", i), "to", rule.To, rule.Ports))
	}
	return out, errors.Join(r.errs...)
}

// directions are those for which a policy isolates pods.
func directions(spec *networkingv1.NetworkPolicySpec) (ingress, egress bool) {
	if len(spec.PolicyTypes) == 0 {
		return true, len(spec.Egress) > 0
	}
	return slices.Contains(spec.PolicyTypes, networkingv1.PolicyTypeIngress), slices.Contains(spec.PolicyTypes, networkingv1.PolicyTypeEgress)
}

func selectorText(s *metav1.LabelSelector) (string, error) {
	parsed, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return "", err
	}
	return parsed.String(), nil
}

// reader reads the rules of one policy and collects what it could not read.
type reader struct {
	namespace string
	errs      []error
}

func (r *reader) rule(path, peers string, from []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort) Rule {
	out := Rule{Everyone: len(from) == 0, AllPorts: len(ports) == 0}
	for i := range from {
		if err := r.peer(&from[i], &out); err != nil {
			r.errs = append(r.errs, fmt.Errorf("%s.%s[%d]: %w", path, peers, i, err))
		}
	}
	for i := range ports {
		if err := readPort(&ports[i], &out); err != nil {
			r.errs = append(r.errs, fmt.Errorf("%s.ports[%d]: %w", path, i, err))
		}
	}
	slices.SortFunc(out.Pods, compareSelections)
	out.Pods = slices.Compact(out.Pods)
	out.Blocks = mergeRanges(out.Blocks)
	out.Ports = mergePorts(out.Ports)
	slices.SortFunc(out.Named, comparePortNames)
	out.Named = slices.Compact(out.Named)
	return out
}

func compareSelections(a, b Selection) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Namespaces, b.Namespaces), cmp.Compare(a.Pods, b.Pods))
}

func comparePortNames(a, b PortName) int {
	return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Name, b.Name))
}

func (r *reader) peer(p *networkingv1.NetworkPolicyPeer, to *Rule) error {
	selects := p.PodSelector != nil || p.NamespaceSelector != nil
	switch {
	case p.IPBlock != nil && selects:
		return errors.New("both an ipBlock and selectors")
	case p.IPBlock != nil:
		ranges, err := readBlock(p.IPBlock)
		to.Blocks = append(to.Blocks, ranges...)
		return err
	case !selects:
		return errors.New("neither an ipBlock nor selectors")
	}
	s := Selection{Namespace: r.namespace}
	var err error
	if p.NamespaceSelector != nil {
		s.Namespace = ""
		if s.Namespaces, err = selectorText(p.NamespaceSelector); err != nil {
			return fmt.Errorf("namespaceSelector: %w", err)
		}
	}
	if p.PodSelector != nil {
		if s.Pods, err = selectorText(p.PodSelector); err != nil {
			return fmt.Errorf("podSelector: %w", err)
		}
	}
	to.Pods = append(to.Pods, s)
	return nil
}

func readPort(p *networkingv1.NetworkPolicyPort, to *Rule) error {
	protocol := corev1.ProtocolTCP
	if p.Protocol != nil {
		protocol = *p.Protocol
	}
	if protocol != corev1.ProtocolTCP && protocol != corev1.ProtocolUDP && protocol != corev1.ProtocolSCTP {
		return fmt.Errorf("protocol %q is none of TCP, UDP and SCTP", protocol)
	}
	if p.Port == nil {
		if p.EndPort != nil {
			return errors.New("an endPort without a port")
		}
		to.Ports = append(to.Ports, PortRange{protocol, 0, 65535})
		return nil
	}
	if p.Port.Type == intstr.String {
		if p.EndPort != nil {
			return errors.New("an endPort with a named port")
		}
		to.Named = append(to.Named, PortName{p.Port.StrVal, protocol})
		return nil
	}
	first, last := p.Port.IntVal, p.Port.IntVal
	if p.EndPort != nil {
		last = *p.EndPort
	}
	if first < 1 || last < first || last > 65535 {
		return fmt.Errorf("ports from %d to %d", first, last)
	}
	to.Ports = append(to.Ports, PortRange{protocol, uint16(first), uint16(last)})
	return nil
}

func mergePorts(all []PortRange) (merged []PortRange) {
	slices.SortFunc(all, func(a, b PortRange) int {
		return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.First, b.First))
	})
	for _, p := range all {
		if n := len(merged) - 1; n >= 0 && merged[n].Protocol == p.Protocol && int(p.First) <= int(merged[n].Last)+1 {
			merged[n].Last = max(merged[n].Last, p.Last)
			continue
		}
		merged = append(merged, p)
	}
	return merged
}
