package allocation

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/registry"
)

// ManagedBy is the value of the label networkingv1.LabelManagedBy on the IPAddresses of services.
const ManagedBy = "ipallocator.k8s.io"

// Address is an allocated cluster IP.
type Address struct {
	netip.Addr
	uid types.UID // of its IPAddress
}

// Owner is the service that owns an address.
type Owner struct{ Namespace, Name string }

// TakeAddress allocates an address of a family from the networks of the ready ServiceCIDRs: the wanted one, or
// any if that is invalid, searching from the seed on. It fails with ErrFull, ErrAddressTaken or ErrNoRange.
func TakeAddress(ctx context.Context, a registry.Access, owner Owner, family corev1.IPFamily, wish AddressWish) (Address, error) {
	ranges, err := readyRanges(ctx, a, family)
	if err != nil {
		return Address{}, err
	}
	if wish.Addr.IsValid() {
		for _, r := range ranges {
			if r.Contains(wish.Addr) {
				return create(ctx, a, owner, wish.Addr)
			}
		}
		return Address{}, ErrNoRange
	}
	for _, r := range ranges {
		got, err := takeAny(ctx, a, owner, r, wish.Seed)
		if !errors.Is(err, ErrFull) {
			return got, err
		}
	}
	return Address{}, ErrFull
}

// AddressWish is a request for an address: Addr, or any if that is the zero Addr, searching from Seed on.
type AddressWish struct {
	Addr netip.Addr
	Seed uint64 // where the search for a free address begins
}

// takeAny tries the address at the seed and, if that is taken, the addresses that are free in the newest state.
func takeAny(ctx context.Context, a registry.Access, owner Owner, r Range, seed uint64) (Address, error) {
	var taken map[netip.Addr]bool
	for addr := range r.All(seed) {
		if taken[addr] {
			continue
		}
		got, err := create(ctx, a, owner, addr)
		if !errors.Is(err, ErrAddressTaken) {
			return got, err
		}
		if taken == nil {
			if taken, err = takenAddresses(ctx, a); err != nil {
				return Address{}, err
			}
		}
	}
	return Address{}, ErrFull
}

// TryAddress reports whether TakeAddress might succeed, and allocates nothing. Like upstream's dry runs, it
// checks one network only, and invents an address if any will do.
func TryAddress(ctx context.Context, a registry.Access, family corev1.IPFamily, wanted netip.Addr) (netip.Addr, error) {
	ranges, err := readyRanges(ctx, a, family)
	switch {
	case err != nil:
		return netip.Addr{}, err
	case len(ranges) == 0:
		return netip.Addr{}, ErrNotReady
	case !wanted.IsValid():
		return ranges[0].Prefix().Addr(), nil
	case !ranges[0].Contains(wanted):
		return netip.Addr{}, fmt.Errorf("provided IP %v %w", wanted, ErrNotInRange)
	}
	return wanted, nil
}

// FindAddress returns the address if the owner has it.
func FindAddress(ctx context.Context, a registry.Access, owner Owner, addr netip.Addr) (Address, bool, error) {
	obj, err := a.Get(ctx, key(addr))
	if errors.Is(err, registry.ErrNotFound) {
		return Address{}, false, nil
	}
	if err != nil {
		return Address{}, false, err
	}
	ip := obj.(*networkingv1.IPAddress)
	return Address{addr, ip.UID}, ownerOf(ip) == owner, nil
}

// Release frees an address. It does nothing if it has another owner by now.
func (a Address) Release(ctx context.Context, access registry.Access) error {
	err := access.Delete(ctx, key(a.Addr), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &a.uid}})
	if errors.Is(err, registry.ErrNotFound) || errors.Is(err, registry.ErrConflict) {
		return nil
	}
	return err
}

// create allocates an address by creating its object, which succeeds only once.
func create(ctx context.Context, a registry.Access, owner Owner, addr netip.Addr) (Address, error) {
	obj, err := a.Create(ctx, addresses(), newIPAddress(addr, owner))
	if errors.Is(err, registry.ErrExists) {
		return Address{}, ErrAddressTaken
	}
	if err != nil {
		return Address{}, fmt.Errorf("take address %s: %w", addr, err)
	}
	return Address{addr, obj.GetUID()}, nil
}

func newIPAddress(addr netip.Addr, owner Owner) *networkingv1.IPAddress {
	return &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: addr.String(), Labels: addressLabels(addr)},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{
			Resource: "services", Namespace: owner.Namespace, Name: owner.Name,
		}},
	}
}

func addressLabels(addr netip.Addr) map[string]string {
	return map[string]string{
		networkingv1.LabelIPAddressFamily: string(familyOf(addr)),
		networkingv1.LabelManagedBy:       ManagedBy,
	}
}

func familyOf(addr netip.Addr) corev1.IPFamily {
	if addr.Is4() {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}

// ownerOf returns the service that an IPAddress refers to, or the zero Owner.
func ownerOf(ip *networkingv1.IPAddress) Owner {
	if p := ip.Spec.ParentRef; p != nil && p.Group == "" && p.Resource == "services" {
		return Owner{p.Namespace, p.Name}
	}
	return Owner{}
}

func addresses() schema.GroupResource {
	return schema.GroupResource{Group: networkingv1.GroupName, Resource: "ipaddresses"}
}

func serviceCIDRs() schema.GroupResource {
	return schema.GroupResource{Group: networkingv1.GroupName, Resource: "servicecidrs"}
}

func key(addr netip.Addr) registry.ObjectKey {
	return registry.ObjectKey{Resource: addresses(), Name: addr.String()}
}

func takenAddresses(ctx context.Context, a registry.Access) (map[netip.Addr]bool, error) {
	list, err := a.List(ctx, addresses(), "")
	if err != nil {
		return nil, err
	}
	taken := make(map[netip.Addr]bool, len(list))
	for _, obj := range list {
		if addr, err := netip.ParseAddr(obj.GetName()); err == nil {
			taken[addr] = true
		}
	}
	return taken, nil
}

// readyRanges returns the networks of a family from which addresses may be allocated, sorted by the names of
// their ServiceCIDRs.
func readyRanges(ctx context.Context, a registry.Access, family corev1.IPFamily) ([]Range, error) {
	list, err := a.List(ctx, serviceCIDRs(), "")
	if err != nil {
		return nil, err
	}
	var ranges []Range
	for _, obj := range list {
		if cidr := obj.(*networkingv1.ServiceCIDR); ready(cidr) {
			ranges = append(ranges, rangesOf(cidr, family)...)
		}
	}
	return ranges, nil
}

// rangesOf returns the networks of a ServiceCIDR in a family.
func rangesOf(cidr *networkingv1.ServiceCIDR, family corev1.IPFamily) []Range {
	var ranges []Range
	for _, text := range cidr.Spec.CIDRs {
		network, err := netip.ParsePrefix(text)
		if err != nil || familyOf(network.Addr()) != family {
			continue
		}
		if r, err := NewRange(network); err == nil {
			ranges = append(ranges, r)
		}
	}
	return ranges
}

// ready reports whether addresses may be allocated from a ServiceCIDR. Without a condition Ready it counts as
// ready, since there may be no controller to set it.
func ready(cidr *networkingv1.ServiceCIDR) bool {
	if cidr.DeletionTimestamp != nil {
		return false
	}
	for _, c := range cidr.Status.Conditions {
		if c.Type == networkingv1.ServiceCIDRConditionReady {
			return c.Status == metav1.ConditionTrue
		}
	}
	return true
}
