package networking

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/internal/check"
)

func networkPolicies() registry.Kind {
	parts := registry.Parts[*networkingv1.NetworkPolicy]{
		Spec: registry.PartOf(func(policy *networkingv1.NetworkPolicy) *networkingv1.NetworkPolicySpec { return &policy.Spec }),
	}
	return registry.Definition[*networkingv1.NetworkPolicy]{
		Names: registry.Names{
			Kind: "NetworkPolicy", Plural: "networkpolicies", Singular: "networkpolicy", Short: []string{"netpol"},
		},
		GroupVersion: networkingv1.SchemeGroupVersion,
		Namespaced:   true,
		New:          func() *networkingv1.NetworkPolicy { return &networkingv1.NetworkPolicy{} },
		NewList:      func() runtime.Object { return &networkingv1.NetworkPolicyList{} },
		Columns:      policyColumns(),
		Rules: registry.Rules[*networkingv1.NetworkPolicy]{
			Default:        defaultPolicy,
			PrepareCreate:  parts.PrepareCreate,
			PrepareUpdate:  parts.PrepareUpdate,
			Validate:       func(policy *networkingv1.NetworkPolicy) field.ErrorList { return validatePolicy(policy, nil) },
			ValidateUpdate: validatePolicy,
		},
	}.Kind()
}

func defaultPolicy(policy *networkingv1.NetworkPolicy) {
	spec := &policy.Spec
	tcp := func(ports []networkingv1.NetworkPolicyPort) {
		for i := range ports {
			if ports[i].Protocol == nil {
				ports[i].Protocol = new(corev1.ProtocolTCP)
			}
		}
	}
	for _, rule := range spec.Ingress {
		tcp(rule.Ports)
	}
	for _, rule := range spec.Egress {
		tcp(rule.Ports)
	}
	if len(spec.PolicyTypes) > 0 {
		return
	}
	spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
	if len(spec.Egress) > 0 {
		spec.PolicyTypes = append(spec.PolicyTypes, networkingv1.PolicyTypeEgress)
	}
}

// judge validates the common parts of a policy.
type judge struct {
	selectors metavalidation.LabelSelectorValidationOptions
	networks  []string        // networks that the policy had before
	last      field.ErrorList // errors of rules that upstream states as declarations on the API types
}

// validatePolicy validates a policy; old is the stored object of an update, or nil.
func validatePolicy(policy, old *networkingv1.NetworkPolicy) field.ErrorList {
	j := &judge{}
	if old != nil {
		j.selectors.AllowInvalidLabelValueInSelector = len(metavalidation.ValidateLabelSelector(&old.Spec.PodSelector, j.selectors, nil)) > 0
		j.networks = networksOf(&old.Spec)
	}
	path, spec := field.NewPath("spec"), &policy.Spec
	errs := metavalidation.ValidateLabelSelector(&spec.PodSelector, j.selectors, path.Child("podSelector"))
	for i, rule := range spec.Ingress {
		path := path.Child("ingress").Index(i)
		errs = append(errs, validatePorts(rule.Ports, path.Child("ports"))...)
		errs = append(errs, j.peers(rule.From, path.Child("from"))...)
	}
	for i, rule := range spec.Egress {
		path := path.Child("egress").Index(i)
		errs = append(errs, validatePorts(rule.Ports, path.Child("ports"))...)
		errs = append(errs, j.peers(rule.To, path.Child("to"))...)
	}
	path = path.Child("policyTypes")
	if len(spec.PolicyTypes) > 2 {
		errs = append(errs, field.Invalid(path, &spec.PolicyTypes, "may not specify more than two policyTypes"))
		return append(errs, j.last...)
	}
	for i, t := range spec.PolicyTypes {
		if t != networkingv1.PolicyTypeIngress && t != networkingv1.PolicyTypeEgress {
			errs = append(errs, field.NotSupported(path.Index(i), t,
				[]networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}))
		}
	}
	return append(errs, j.last...)
}

// networksOf returns all networks in a policy.
func networksOf(spec *networkingv1.NetworkPolicySpec) []string {
	var networks []string
	add := func(peers []networkingv1.NetworkPolicyPeer) {
		for _, peer := range peers {
			if b := peer.IPBlock; b != nil {
				networks = append(append(networks, b.CIDR), b.Except...)
			}
		}
	}
	for _, rule := range spec.Ingress {
		add(rule.From)
	}
	for _, rule := range spec.Egress {
		add(rule.To)
	}
	return networks
}

func validatePorts(ports []networkingv1.NetworkPolicyPort, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, p := range ports {
		path := path.Index(i)
		if t := p.Protocol; t != nil && *t != corev1.ProtocolTCP && *t != corev1.ProtocolUDP && *t != corev1.ProtocolSCTP {
			errs = append(errs, field.NotSupported(path.Child("protocol"), *t,
				[]corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}))
		}
		end := path.Child("endPort")
		switch {
		case p.Port == nil:
			if p.EndPort != nil {
				errs = append(errs, field.Invalid(end, *p.EndPort, "may not be specified when `port` is not specified"))
			}
		case p.Port.Type == intstr.Int:
			errs = append(errs, check.PortNumber(path.Child("port"), p.Port.IntVal)...)
			if p.EndPort != nil && *p.EndPort < p.Port.IntVal {
				errs = append(errs, field.Invalid(end, *p.EndPort, "must be greater than or equal to `port`"))
			}
			if p.EndPort != nil {
				errs = append(errs, check.PortNumber(end, *p.EndPort)...)
			}
		default:
			if p.EndPort != nil {
				errs = append(errs, field.Invalid(end, *p.EndPort, "may not be specified when `port` is non-numeric"))
			}
			errs = append(errs, check.Messages(path.Child("port"), p.Port.StrVal, validation.IsValidPortName(p.Port.StrVal))...)
		}
	}
	return errs
}

func (j *judge) peers(peers []networkingv1.NetworkPolicyPeer, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range peers {
		peer, path := &peers[i], path.Index(i)
		if peer.PodSelector != nil {
			errs = append(errs, metavalidation.ValidateLabelSelector(peer.PodSelector, j.selectors, path.Child("podSelector"))...)
		}
		if peer.NamespaceSelector != nil {
			errs = append(errs, metavalidation.ValidateLabelSelector(peer.NamespaceSelector, j.selectors, path.Child("namespaceSelector"))...)
		}
		if peer.IPBlock != nil {
			errs = append(errs, j.block(peer.IPBlock, path.Child("ipBlock"))...)
		}
		selected := peer.PodSelector != nil || peer.NamespaceSelector != nil
		switch {
		case !selected && peer.IPBlock == nil:
			errs = append(errs, field.Required(path, "must specify a peer"))
		case selected && peer.IPBlock != nil:
			errs = append(errs, field.Forbidden(path, "may not specify both ipBlock and another peer"))
		}
	}
	return errs
}

// block validates a network and its exceptions. Networks that the policy had before stay valid, wherever they
// are now.
func (j *judge) block(b *networkingv1.IPBlock, path *field.Path) field.ErrorList {
	if b.CIDR == "" {
		j.last = append(j.last, field.Required(path.Child("cidr"), ""))
		return nil
	}
	errs := check.CIDR(path.Child("cidr"), b.CIDR, j.networks)
	_, whole, err := netutils.ParseCIDRSloppy(b.CIDR)
	if err != nil {
		return errs
	}
	for i, except := range b.Except {
		path := path.Child("except").Index(i)
		errs = append(errs, check.CIDR(path, except, j.networks)...)
		_, part, err := netutils.ParseCIDRSloppy(except)
		if err != nil {
			continue
		}
		size, _ := whole.Mask.Size()
		partSize, _ := part.Mask.Size()
		if !whole.Contains(part.IP) || size >= partSize {
			errs = append(errs, field.Invalid(path, except, "must be a strict subset of `cidr`"))
		}
	}
	return errs
}
