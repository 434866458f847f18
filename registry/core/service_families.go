package core

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/keelson-dev/keelson/registry/internal/check"
)

// validateClusterIPs validates cluster IPs, IP families and their policy, each by itself and against each other
// (KEP-563).
func validateClusterIPs(svc, old *corev1.Service) field.ErrorList {
	if !hasClusterIP(svc) {
		return nil
	}
	spec := &svc.Spec
	path := field.NewPath("spec", "clusterIPs")
	errs := validateAgreement(spec, path)
	errs = append(errs, validateFamilies(spec)...)

	var before []string
	if old != nil {
		before = old.Spec.ClusterIPs
	}
	invalid := false
	for i, ip := range spec.ClusterIPs {
		var bad field.ErrorList
		if i > 0 || ip != corev1.ClusterIPNone {
			bad = check.IP(path.Index(i), ip, before)
		} else if len(spec.ClusterIPs) > 1 {
			bad = field.ErrorList{field.Invalid(path, spec.ClusterIPs, "'None' must be the first and only value")}
		}
		invalid = invalid || len(bad) > 0
		errs = append(errs, bad...)
	}
	if len(spec.ClusterIPs) > 2 {
		errs = append(errs, field.Invalid(path, spec.ClusterIPs, "may only hold up to 2 values"))
	}
	if invalid { // further errors would only confuse
		return errs
	}
	if len(spec.ClusterIPs) > 1 {
		dual, err := netutils.IsDualStackIPStrings(spec.ClusterIPs)
		if err != nil {
			errs = append(errs, field.InternalError(path, fmt.Errorf("failed to check for dual stack with error:%w", err)))
		}
		if !dual {
			errs = append(errs, field.Invalid(path, spec.ClusterIPs, "may specify no more than one IP for each IP family"))
		}
	}
	if headless(svc) {
		return errs
	}
	for i := range min(len(spec.ClusterIPs), len(spec.IPFamilies)) {
		ip, family := spec.ClusterIPs[i], spec.IPFamilies[i]
		is6 := netutils.IsIPv6String(ip)
		if family == corev1.IPv4Protocol && is6 || family == corev1.IPv6Protocol && !is6 {
			errs = append(errs, field.Invalid(path.Index(i), ip,
				fmt.Sprintf("expected an %s value as indicated by `ipFamilies[%v]`", family, i)))
		}
	}
	return errs
}

// validateAgreement requires clusterIP to be the first of clusterIPs.
func validateAgreement(spec *corev1.ServiceSpec, path *field.Path) field.ErrorList {
	switch {
	case spec.ClusterIP == "" && len(spec.ClusterIPs) > 0:
		return field.ErrorList{field.Invalid(path, spec.ClusterIPs, "must be empty when `clusterIP` is not specified")}
	case spec.ClusterIP != "" && len(spec.ClusterIPs) == 0:
		return field.ErrorList{field.Required(path, "")}
	case spec.ClusterIP != "" && spec.ClusterIPs[0] != spec.ClusterIP:
		return field.ErrorList{field.Invalid(path, spec.ClusterIPs, "first value must match `clusterIP`")}
	}
	return nil
}

func validateFamilies(spec *corev1.ServiceSpec) field.ErrorList {
	var errs field.ErrorList
	seen := map[corev1.IPFamily]bool{}
	for i, family := range spec.IPFamilies {
		path := field.NewPath("spec", "ipFamilies").Index(i)
		errs = append(errs, check.OneOf(path, family, corev1.IPv4Protocol, corev1.IPv6Protocol)...)
		if seen[family] {
			errs = append(errs, field.Duplicate(path, family))
		}
		seen[family] = true
	}
	if spec.IPFamilyPolicy != nil {
		errs = append(errs, check.OneOf(field.NewPath("spec", "ipFamilyPolicy"), *spec.IPFamilyPolicy,
			corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack, corev1.IPFamilyPolicySingleStack)...)
	}
	return errs
}

// families are the IP families of a cluster's services, the default one first.
type families []corev1.IPFamily

// errors returns the errors about families that the cluster does not have, or that the service's policy does
// not allow.
func (f families) errors(svc, old *corev1.Service) field.ErrorList {
	if !hasClusterIP(svc) || keepsPreference(svc, old) || len(validateClusterIPs(svc, old)) > 0 {
		return nil
	}
	spec := &svc.Spec
	policyPath := field.NewPath("spec", "ipFamilyPolicy")
	single := familyPolicy(svc) == corev1.IPFamilyPolicySingleStack
	var errs field.ErrorList
	refusePolicy := func(refused bool, message string) {
		if refused {
			errs = append(errs, field.Invalid(policyPath, spec.IPFamilyPolicy, message))
		}
	}
	if old != nil && !single {
		refusePolicy(len(spec.ClusterIPs) > 0 && len(spec.ClusterIPs) < len(old.Spec.ClusterIPs),
			"must be 'SingleStack' to release the secondary cluster IP")
		refusePolicy(len(spec.IPFamilies) > 0 && len(spec.IPFamilies) < len(old.Spec.IPFamilies) && !f.fewer(svc, old),
			"must be 'SingleStack' to release the secondary IP family")
	}
	refusePolicy(single && len(spec.ClusterIPs) == 2,
		"must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are specified")
	refusePolicy(single && len(spec.IPFamilies) == 2,
		"must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified")
	if !headless(svc) {
		for i := len(spec.IPFamilies); i < len(spec.ClusterIPs); i++ {
			if family := familyOf(spec.ClusterIPs[i]); !slices.Contains(f, family) {
				errs = append(errs, field.Invalid(field.NewPath("spec", "clusterIPs").Index(i), spec.ClusterIPs,
					fmt.Sprintf("%s is not configured on this cluster", family)))
			}
		}
	}
	if len(errs) > 0 || endpointsByHand(svc) {
		return errs
	}
	refusePolicy(familyPolicy(svc) == corev1.IPFamilyPolicyRequireDualStack && len(f) < 2,
		"this cluster is not configured for dual-stack services")
	for i, family := range spec.IPFamilies {
		if !slices.Contains(f, family) {
			errs = append(errs, field.Invalid(field.NewPath("spec", "ipFamilies").Index(i), family, "not configured on this cluster"))
		}
	}
	return errs
}

// fewer reports whether an update reduces a service's families because its manually managed endpoints gave it
// families that the cluster does not have.
func (f families) fewer(svc, old *corev1.Service) bool {
	return familyPolicy(svc) == corev1.IPFamilyPolicyPreferDualStack && endpointsByHand(old) && headless(svc) && !endpointsByHand(svc) &&
		len(f) == 1 && slices.Equal(svc.Spec.IPFamilies, f)
}

func familyOf(ip string) corev1.IPFamily {
	if netutils.IsIPv6String(ip) {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

// validateClusterIPsChange allows adding and removing a second cluster IP; the first one stays.
func validateClusterIPsChange(svc, old *corev1.Service) field.ErrorList {
	if !hasClusterIP(svc) || !hasClusterIP(old) || headless(svc) && headless(old) {
		return nil
	}
	path := field.NewPath("spec", "clusterIPs")
	ips, before := svc.Spec.ClusterIPs, old.Spec.ClusterIPs
	var errs field.ErrorList
	if len(ips) == len(before) {
		for i := range before {
			if ips[i] != before[i] {
				errs = append(errs, field.Invalid(path.Index(i), ips, mayNotChange))
			}
		}
		return errs
	}
	if len(ips) == 0 {
		return field.ErrorList{field.Invalid(path.Index(0), ips, "primary clusterIP can not be unset")}
	}
	if len(before) > 0 && ips[0] != before[0] {
		errs = append(errs, field.Invalid(path.Index(0), ips, mayNotChange))
	}
	if len(ips) < len(before) && len(ips) == 1 && familyPolicy(svc) != corev1.IPFamilyPolicySingleStack {
		errs = append(errs, field.Invalid(field.NewPath("spec", "ipFamilyPolicy"), svc.Spec.IPFamilyPolicy,
			"must be set to 'SingleStack' when releasing the secondary clusterIP"))
	}
	return errs
}

// validateFamiliesChange allows adding and removing a second IP family; the first one stays.
func validateFamiliesChange(svc, old *corev1.Service) field.ErrorList {
	if !hasClusterIP(svc) || !hasClusterIP(old) || headless(svc) || headless(old) {
		return nil
	}
	path := field.NewPath("spec", "ipFamilies").Index(0)
	families, before := svc.Spec.IPFamilies, old.Spec.IPFamilies
	var errs field.ErrorList
	if len(families) == len(before) {
		for i := range before {
			if families[i] != before[i] {
				errs = append(errs, field.Invalid(path, families, mayNotChange))
			}
		}
		return errs
	}
	released := len(families) < len(before)
	if released && len(svc.Spec.ClusterIPs) == 0 {
		errs = append(errs, field.Invalid(path, families, "primary ipFamily can not be unset"))
	}
	if len(families) > 0 && len(before) > 0 && families[0] != before[0] {
		errs = append(errs, field.Invalid(path, svc.Spec.ClusterIPs, mayNotChange))
	}
	if released && len(families) == 1 && familyPolicy(svc) != corev1.IPFamilyPolicySingleStack {
		errs = append(errs, field.Invalid(field.NewPath("spec", "ipFamilyPolicy"), svc.Spec.IPFamilyPolicy,
			"must be set to 'SingleStack' when releasing the secondary ipFamily"))
	}
	return errs
}
