package servicecidrs

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Finalizer keeps a ServiceCIDR that is in use.
const Finalizer = "networking.k8s.io/service-cidr-finalizer"

// Grace is how long a deleted ServiceCIDR is kept at least: all servers know by then that it is deleted.
const Grace = 10 * time.Second

// manager is the value of the label of addresses that belong to services.
const manager = "ipallocator.k8s.io"

// ready and terminating are the conditions that a ServiceCIDR gets, without their time.
func ready() metav1.Condition {
	return metav1.Condition{Type: networkingv1.ServiceCIDRConditionReady, Status: metav1.ConditionTrue, Message: "Kubernetes Service CIDR is ready"}
}

func terminating() metav1.Condition {
	return metav1.Condition{
		Type: networkingv1.ServiceCIDRConditionReady, Status: metav1.ConditionFalse, Reason: networkingv1.ServiceCIDRReasonTerminating,
		Message: "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR",
	}
}

// Removable reports whether a ServiceCIDR may go: others contain all addresses of services in its networks. All includes it.
func Removable(cidr *networkingv1.ServiceCIDR, all []*networkingv1.ServiceCIDR, addresses []*networkingv1.IPAddress) bool {
	return !slices.ContainsFunc(addresses, func(a *networkingv1.IPAddress) bool {
		holders := containing(a, all)
		return len(holders) == 1 && holders[0] == cidr.Name
	})
}

// containing returns the names of the ServiceCIDRs from which an address of a service may be; none for other addresses.
func containing(a *networkingv1.IPAddress, all []*networkingv1.ServiceCIDR) []string {
	ip, _ := netip.ParseAddr(a.Name) // no network contains what is no address
	if a.Labels[networkingv1.LabelManagedBy] != manager {
		return nil
	}
	var names []string
	for _, c := range all {
		if slices.ContainsFunc(networks(c), func(n netip.Prefix) bool { return contains(n, ip) }) {
			names = append(names, c.Name)
		}
	}
	return names
}

// contains reports whether services may have an address of a network: not its first and, of IPv4, not its last.
func contains(network netip.Prefix, ip netip.Addr) bool {
	return network.Contains(ip) && network.Masked().Addr() != ip && (!ip.Is4() || last(network) != ip)
}

// last is the broadcast address of a network of IPv4.
func last(network netip.Prefix) netip.Addr {
	first := network.Masked().Addr().As4()
	hosts := uint32(1)<<(32-network.Bits()) - 1
	var ip [4]byte
	binary.BigEndian.PutUint32(ip[:], binary.BigEndian.Uint32(first[:])|hosts)
	return netip.AddrFrom4(ip)
}

// overlapping returns the names of the ServiceCIDRs that share addresses with one, which is one of them.
func overlapping(cidr *networkingv1.ServiceCIDR, all []*networkingv1.ServiceCIDR) []string {
	var names []string
	for _, other := range all {
		if slices.ContainsFunc(networks(other), func(n netip.Prefix) bool {
			return slices.ContainsFunc(networks(cidr), n.Overlaps)
		}) {
			names = append(names, other.Name)
		}
	}
	return names
}

func networks(cidr *networkingv1.ServiceCIDR) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range cidr.Spec.CIDRs {
		if network, err := netip.ParsePrefix(text); err == nil {
			all = append(all, network)
		}
	}
	return all
}
