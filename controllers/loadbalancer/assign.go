package loadbalancer

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Errors of Assign; test for them with errors.Is.
var (
	// ErrExhausted: all addresses are taken.
	ErrExhausted = errors.New("no address is free")
	// ErrUnavailable: the address that the service asks for is taken, or in no range.
	ErrUnavailable = errors.New("the requested address is not available")
	// ErrNoRange: there is no range for any of the service's IP families.
	ErrNoRange = errors.New("there is no range for the service's IP families")
)

// Assign returns the addresses that a service is to have, in the order of its IP families: those it has already, if they
// are in a range and free, or others.
func Assign(service *corev1.Service, ranges []netip.Prefix, taken func(netip.Addr) bool) ([]netip.Addr, error) {
	free := func(ip netip.Addr) bool { return usable(ip, ranges) && !taken(ip) }
	if text := service.Spec.LoadBalancerIP; text != "" {
		ip, err := netip.ParseAddr(text)
		if err != nil || !free(ip) {
			return nil, fmt.Errorf("%w: %s", ErrUnavailable, text)
		}
		return []netip.Addr{ip}, nil
	}
	has := Addresses(service)
	var all []netip.Addr
	for _, family := range families(service) {
		of := func(ip netip.Addr) bool { return ip.Is4() == (family == corev1.IPv4Protocol) }
		if !slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return of(r.Addr()) }) {
			continue
		}
		if at := slices.IndexFunc(has, func(ip netip.Addr) bool { return of(ip) && free(ip) }); at >= 0 {
			all = append(all, has[at])
			continue
		}
		ip, ok := first(ranges, func(ip netip.Addr) bool { return of(ip) && free(ip) })
		if !ok {
			return nil, fmt.Errorf("%w: %s", ErrExhausted, family)
		}
		all = append(all, ip)
	}
	if len(all) == 0 {
		return nil, ErrNoRange
	}
	return all, nil
}

// families are those of a service, IPv4 if it does not say.
func families(service *corev1.Service) []corev1.IPFamily {
	if len(service.Spec.IPFamilies) == 0 {
		return []corev1.IPFamily{corev1.IPv4Protocol}
	}
	return service.Spec.IPFamilies
}

// Addresses returns the addresses in a service's status.
func Addresses(service *corev1.Service) []netip.Addr {
	var all []netip.Addr
	for _, in := range service.Status.LoadBalancer.Ingress {
		if ip, err := netip.ParseAddr(in.IP); err == nil {
			all = append(all, ip)
		}
	}
	return all
}

// most is how many addresses of a range are tried at most; a range of IPv6 has more than can be.
const most = 1 << 16

// first returns the first address of the ranges that is wanted.
func first(ranges []netip.Prefix, want func(netip.Addr) bool) (netip.Addr, bool) {
	for _, r := range ranges {
		ip := r.Masked().Addr()
		for n := 0; n < most && r.Contains(ip); n++ {
			if want(ip) {
				return ip, true
			}
			ip = ip.Next()
		}
	}
	return netip.Addr{}, false
}

// usable reports whether an address is in a range, and neither the first nor the last of one of IPv4 that has more than two.
func usable(ip netip.Addr, ranges []netip.Prefix) bool {
	return slices.ContainsFunc(ranges, func(r netip.Prefix) bool {
		if !r.Contains(ip) {
			return false
		}
		if !ip.Is4() || r.Bits() > 30 {
			return true
		}
		return r.Masked().Addr() != ip && r.Contains(ip.Next())
	})
}
