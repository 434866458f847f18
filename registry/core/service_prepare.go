package core

import (
	"context"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Fields of a service depend on each other, and clients set only some of them. The functions below infer the
// others, in upstream's order: existing values stay, the cluster IP and its list agree, the families follow the
// IPs, and fields that the type no longer has are dropped.

// complete fills in the fields of a new service.
func (f families) complete(svc *corev1.Service) {
	if svc.Spec.ClusterIP != "" && len(svc.Spec.ClusterIPs) == 0 {
		svc.Spec.ClusterIPs = []string{svc.Spec.ClusterIP}
	}
	f.fill(svc, nil)
}

func (f families) prepareUpdate(_ context.Context, svc, shared *corev1.Service) {
	old := shared.DeepCopy()
	keepGiven(svc, old)
	alignClusterIPs(svc, old)
	f.fill(svc, old)
	svc.Status = old.Status
	dropOfType(svc, old)
}

// keepGiven restores allocations that are missing in an update, so that clients may send the same manifest
// twice.
func keepGiven(svc, old *corev1.Service) {
	if hasClusterIP(old) && hasClusterIP(svc) {
		if svc.Spec.ClusterIP == "" {
			svc.Spec.ClusterIP = old.Spec.ClusterIP
		}
		if len(svc.Spec.ClusterIPs) == 0 && len(old.Spec.ClusterIPs) > 0 {
			svc.Spec.ClusterIPs = slices.Clone(old.Spec.ClusterIPs)
		}
	}
	if getsNodePorts(old) && getsNodePorts(svc) {
		before, now := nodePorts(old), nodePorts(svc)
		named := map[string]int32{}
		for _, p := range old.Spec.Ports {
			named[p.Name] = p.NodePort
		}
		for i := range svc.Spec.Ports {
			p := &svc.Spec.Ports[i]
			if given := named[p.Name]; p.NodePort == 0 && (!before[given] || !now[given]) {
				p.NodePort = given
			}
		}
	}
	if hasHealthPort(old) && hasHealthPort(svc) && svc.Spec.HealthCheckNodePort == 0 {
		svc.Spec.HealthCheckNodePort = old.Spec.HealthCheckNodePort
	}
}

func nodePorts(svc *corev1.Service) map[int32]bool {
	ports := map[int32]bool{}
	for _, p := range svc.Spec.Ports {
		if p.NodePort != 0 {
			ports[p.NodePort] = true
		}
	}
	return ports
}

// alignClusterIPs lets clients that know only clusterIP, or that leave clusterIPs unchanged, set or clear both.
func alignClusterIPs(svc, old *corev1.Service) {
	s, o := &svc.Spec, &old.Spec
	if s.ClusterIP == o.ClusterIP {
		if len(s.ClusterIPs) == 0 {
			s.ClusterIPs = slices.Clone(o.ClusterIPs)
		}
		return
	}
	if !slices.Equal(s.ClusterIPs, o.ClusterIPs) {
		return // validation requires them to agree
	}
	s.ClusterIPs = nil
	if s.ClusterIP != "" {
		s.ClusterIPs = []string{s.ClusterIP}
	}
}

// fill sets the IP families of a service and their policy. It does nothing if the service will be refused.
func (f families) fill(svc, old *corev1.Service) {
	if !hasClusterIP(svc) || keepsPreference(svc, old) {
		return
	}
	s := &svc.Spec
	if s.IPFamilyPolicy == nil {
		switch {
		case old != nil && old.Spec.IPFamilyPolicy != nil:
			s.IPFamilyPolicy = new(*old.Spec.IPFamilyPolicy)
		case endpointsByHand(svc):
			s.IPFamilyPolicy = new(corev1.IPFamilyPolicyRequireDualStack)
		default:
			s.IPFamilyPolicy = new(corev1.IPFamilyPolicySingleStack)
		}
	}
	if len(validateClusterIPs(svc, old)) > 0 {
		return
	}
	if old != nil && familyPolicy(svc) == corev1.IPFamilyPolicySingleStack {
		if len(s.ClusterIPs) > 1 && slices.Equal(s.ClusterIPs, old.Spec.ClusterIPs) {
			s.ClusterIPs = s.ClusterIPs[:1]
		}
		if len(s.IPFamilies) > 1 && slices.Equal(s.IPFamilies, old.Spec.IPFamilies) {
			s.IPFamilies = s.IPFamilies[:1]
		}
	}
	if len(f.errors(svc, old)) > 0 {
		return
	}
	for i, ip := range s.ClusterIPs {
		if ip == corev1.ClusterIPNone || !slices.Contains(f, familyOf(ip)) {
			break
		}
		if i >= len(s.IPFamilies) {
			s.IPFamilies = append(s.IPFamilies, familyOf(ip))
		}
	}
	if len(s.IPFamilies) == 0 {
		s.IPFamilies = []corev1.IPFamily{f[0]}
	}
	two := endpointsByHand(svc) || len(f) == 2
	if two && len(s.IPFamilies) == 1 && familyPolicy(svc) != corev1.IPFamilyPolicySingleStack {
		s.IPFamilies = append(s.IPFamilies, otherFamily(s.IPFamilies[0]))
	}
}

// restore completes a service from before the lists of IPs and families.
func (f families) restore(svc *corev1.Service) {
	s := &svc.Spec
	if s.ClusterIP != "" && len(s.ClusterIPs) == 0 {
		s.ClusterIPs = []string{s.ClusterIP}
	}
	if !hasClusterIP(svc) {
		s.InternalTrafficPolicy = nil // servers once set it though the type does not use it
		return
	}
	switch {
	case len(s.IPFamilies) > 0:
		return
	case s.ClusterIP != corev1.ClusterIPNone:
		for _, ip := range s.ClusterIPs {
			s.IPFamilies = append(s.IPFamilies, familyOf(ip))
		}
	case endpointsByHand(svc):
		s.IPFamilies = []corev1.IPFamily{f[0], otherFamily(f[0])}
	default:
		s.IPFamilies = []corev1.IPFamily{f[0]}
	}
	switch len(s.IPFamilies) {
	case 1:
		s.IPFamilyPolicy = new(corev1.IPFamilyPolicySingleStack)
	case 2:
		s.IPFamilyPolicy = new(corev1.IPFamilyPolicyRequireDualStack)
	}
}

func otherFamily(family corev1.IPFamily) corev1.IPFamily {
	if family == corev1.IPv6Protocol {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}

// endpointsByHand reports whether a service has no selector and no IP: its manually managed endpoints may be of
// any family, whatever the cluster has.
func endpointsByHand(svc *corev1.Service) bool {
	return svc.Spec.ClusterIP == corev1.ClusterIPNone && len(svc.Spec.Selector) == 0
}

// keepsPreference reports whether an update leaves a service unchanged that prefers two families: it keeps its
// families even when the cluster's have changed.
func keepsPreference(svc, old *corev1.Service) bool {
	return old != nil && svc.Spec.Type == old.Spec.Type && proxied(svc) &&
		familyPolicy(svc) == corev1.IPFamilyPolicyPreferDualStack &&
		(old.Spec.IPFamilyPolicy == nil || familyPolicy(old) == corev1.IPFamilyPolicyPreferDualStack) &&
		slices.Equal(svc.Spec.ClusterIPs, old.Spec.ClusterIPs) && slices.Equal(svc.Spec.IPFamilies, old.Spec.IPFamilies)
}

func familyPolicy(svc *corev1.Service) corev1.IPFamilyPolicy {
	if svc.Spec.IPFamilyPolicy == nil {
		return ""
	}
	return *svc.Spec.IPFamilyPolicy
}

func sameClusterIPs(svc, old *corev1.Service) bool {
	return svc.Spec.ClusterIP == old.Spec.ClusterIP && slices.Equal(svc.Spec.ClusterIPs, old.Spec.ClusterIPs)
}

// dropOfType drops values of the old type that the new type does not have and the client left unchanged.
// Validation refuses those that the client changed.
func dropOfType(svc, old *corev1.Service) {
	s, o := &svc.Spec, &old.Spec
	if hasClusterIP(old) && !hasClusterIP(svc) {
		if sameClusterIPs(svc, old) {
			s.ClusterIP, s.ClusterIPs = "", nil
		}
		if reflect.DeepEqual(s.IPFamilies, o.IPFamilies) {
			s.IPFamilies = nil
		}
		if familyPolicy(svc) == familyPolicy(old) {
			s.IPFamilyPolicy = nil
		}
	}
	if hasNodePorts(old) && !hasNodePorts(svc) && noNewNodePorts(svc, old) {
		for i := range s.Ports {
			s.Ports[i].NodePort = 0
		}
	}
	if hasHealthPort(old) && !hasHealthPort(svc) && s.HealthCheckNodePort == o.HealthCheckNodePort {
		s.HealthCheckNodePort = 0
	}
	if o.Type == corev1.ServiceTypeLoadBalancer && s.Type != corev1.ServiceTypeLoadBalancer {
		if a, b := s.AllocateLoadBalancerNodePorts, o.AllocateLoadBalancerNodePorts; a != nil && b != nil && *a == *b {
			s.AllocateLoadBalancerNodePorts = nil
		}
		if equalPointees(s.LoadBalancerClass, o.LoadBalancerClass) {
			s.LoadBalancerClass = nil
		}
	}
	if reachableFromOutside(old) && !reachableFromOutside(svc) && s.ExternalTrafficPolicy == o.ExternalTrafficPolicy {
		s.ExternalTrafficPolicy = ""
	}
	if s.Type != corev1.ServiceTypeLoadBalancer {
		svc.Status.LoadBalancer = corev1.LoadBalancerStatus{}
	}
}

func noNewNodePorts(svc, old *corev1.Service) bool {
	before := nodePorts(old)
	for port := range nodePorts(svc) {
		if !before[port] {
			return false
		}
	}
	return true
}

func equalPointees[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
