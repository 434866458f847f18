package allocation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	netutils "k8s.io/utils/net"

	"github.com/keelson-dev/keelson/registry"
)

// leakAge is how long an allocation must have been seen unused before it is freed: longer than any write can
// take.
const leakAge = registry.ReservationTime + 30*time.Second

// RepairOptions are the options of a Repair; the zero value is valid.
type RepairOptions struct {
	// Interval is the time between rounds; 0 is a minute. A leak is freed in the first round that begins at
	// least 90 seconds after the one that found it.
	Interval time.Duration
	// Report, if set, receives the findings, for warning events about a service or an IPAddress. It must not
	// block.
	Report func(about registry.Object, reason, action, message string)
	Logger *slog.Logger
}

// Repair compares allocations with what services use, at its start and periodically.
type Repair struct {
	access  registry.Access
	ports   *Ports
	options RepairOptions
	log     *slog.Logger

	wake        chan struct{}
	unused      map[types.UID]time.Time // unused IPAddresses, by when they were first seen unused
	unusedPorts map[int]time.Time       // unused allocated ports, likewise
	seen        int64                   // revision of the record of ports in the last round
}

// NewRepair returns a Repair of the services that access reaches; ports may be nil.
func NewRepair(access registry.Access, ports *Ports, o RepairOptions) *Repair {
	if o.Interval <= 0 {
		o.Interval = time.Minute
	}
	if o.Report == nil {
		o.Report = func(registry.Object, string, string, string) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Repair{
		access: access, ports: ports, options: o, log: o.Logger, wake: make(chan struct{}, 1),
		unused: map[types.UID]time.Time{}, unusedPorts: map[int]time.Time{},
	}
}

// Wake makes Run begin a round soon, within about a second: after the deletion of an IPAddress that may be in
// use, say. It does not block.
func (r *Repair) Wake() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run repairs until the context ends, and then returns nil. It logs errors and retries. It is called once.
func (r *Repair) Run(ctx context.Context) error {
	tick := time.NewTimer(r.options.Interval)
	defer tick.Stop()
	for {
		if err := r.Once(ctx); err != nil && ctx.Err() == nil {
			r.log.Warn("cannot repair cluster IPs and node ports", "error", err)
		}
		tick.Reset(r.options.Interval)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			continue
		case <-r.wake:
		}
		tick.Reset(min(time.Second, r.options.Interval)) // for many deletions at once
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Once runs one round: it allocates what services use without an allocation, and frees what has been seen
// unused for long enough. It must not be called while Run runs.
func (r *Repair) Once(ctx context.Context) error {
	return errors.Join(r.repairAddresses(ctx), r.repairPorts(ctx))
}

func (r *Repair) services(ctx context.Context) ([]*corev1.Service, error) {
	list, err := r.access.List(ctx, schema.GroupResource{Resource: "services"}, "")
	if err != nil {
		return nil, fmt.Errorf("list services: %w", err)
	}
	services := make([]*corev1.Service, 0, len(list))
	for _, obj := range list {
		if svc, ok := obj.(*corev1.Service); ok {
			services = append(services, svc)
		}
	}
	return services, nil
}

// repairAddresses reads the IPAddresses before the services: a service that got an address in between does have
// an IPAddress, though it was not read, and the user of every IPAddress is seen.
func (r *Repair) repairAddresses(ctx context.Context) error {
	list, err := r.access.List(ctx, addresses(), "")
	if errors.Is(err, registry.ErrNotFound) {
		return nil // the kind is not served
	}
	if err != nil {
		return fmt.Errorf("list IP addresses: %w", err)
	}
	taken := make(map[string]*networkingv1.IPAddress, len(list))
	for _, obj := range list {
		taken[obj.GetName()] = obj.(*networkingv1.IPAddress)
	}
	services, err := r.services(ctx)
	if err != nil {
		return err
	}
	ranges, err := r.allRanges(ctx)
	if err != nil {
		return err
	}
	used := map[string][]*corev1.Service{}
	for _, svc := range services {
		for _, addr := range ClusterIPs(svc) {
			used[addr.String()] = append(used[addr.String()], svc)
		}
	}
	var errs []error
	for _, svc := range services {
		for _, addr := range ClusterIPs(svc) {
			switch {
			case !slices.ContainsFunc(ranges, func(r Range) bool { return r.Contains(addr) }):
				r.options.Report(svc, "ClusterIPOutOfRange", "ClusterIPAllocation",
					fmt.Sprintf("Cluster IP [%v]: %s is not within any configured Service CIDR; please recreate service", familyOf(addr), addr))
			default:
				errs = append(errs, r.repairAddress(ctx, svc, addr, taken[addr.String()]))
			}
		}
	}
	return errors.Join(append(errs, r.freeAddresses(ctx, taken, used))...)
}

// repairAddress ensures that a service's cluster IP is allocated to the service.
func (r *Repair) repairAddress(ctx context.Context, svc *corev1.Service, addr netip.Addr, ip *networkingv1.IPAddress) error {
	owner := Owner{svc.Namespace, svc.Name}
	family := familyOf(addr)
	switch {
	case ip == nil:
		_, err := create(ctx, r.access, owner, addr)
		if errors.Is(err, ErrAddressTaken) {
			return nil // since the IPAddresses were read
		}
		r.options.Report(svc, "ClusterIPNotAllocated", "ClusterIPAllocation", fmt.Sprintf("Cluster IP [%v]: %s is not allocated; repairing", family, addr))
		return err
	case ownerOf(ip) == Owner{}:
		r.options.Report(svc, "ClusterIPNotAllocated", "ClusterIPAllocation",
			fmt.Sprintf("the ClusterIP [%v]: %s for Service %s/%s has a wrong reference; repairing", family, addr, svc.Namespace, svc.Name))
	case ownerOf(ip) != owner:
		// Either both services use the address, or the other one does not and freeAddresses will free it.
		return nil
	case ip.Labels[networkingv1.LabelManagedBy] == ManagedBy && ip.Labels[networkingv1.LabelIPAddressFamily] == string(family):
		return nil
	}
	_, err := r.access.Modify(ctx, key(addr), func(obj registry.Object) error {
		if obj.GetUID() != ip.UID {
			return fmt.Errorf("IP address %s was replaced meanwhile", addr)
		}
		good := newIPAddress(addr, owner)
		obj.SetLabels(good.Labels)
		obj.(*networkingv1.IPAddress).Spec = good.Spec
		return nil
	}, false)
	return err
}

// freeAddresses frees the addresses of services that have been seen unused for long enough, and reports those
// that several services use.
func (r *Repair) freeAddresses(ctx context.Context, taken map[string]*networkingv1.IPAddress, used map[string][]*corev1.Service) error {
	now := time.Now()
	unused := map[types.UID]time.Time{}
	var errs []error
	for name, ip := range taken {
		if ip.Labels[networkingv1.LabelManagedBy] != ManagedBy {
			continue
		}
		users := used[name]
		uses := func(svc *corev1.Service) bool { return ownerOf(ip) == Owner{svc.Namespace, svc.Name} }
		if slices.ContainsFunc(users, uses) {
			for _, svc := range users {
				if !uses(svc) {
					r.options.Report(svc, "ClusterIPAlreadyAllocated", "ClusterIPAllocation",
						fmt.Sprintf("Cluster IP [%v]:%s was assigned to multiple services; please recreate service", ip.Labels[networkingv1.LabelIPAddressFamily], name))
				}
			}
			continue
		}
		if len(users) > 0 && ownerOf(ip) == (Owner{}) {
			continue // repairAddress has reassigned it to its user
		}
		since, known := r.unused[ip.UID]
		if !known {
			since = now
		}
		if now.Sub(since) < leakAge {
			unused[ip.UID] = since
			continue
		}
		r.options.Report(ip, "IPAddressNotAllocated", "IPAddressAllocation",
			fmt.Sprintf("IPAddress: %s for Service %s/%s appears to have leaked: cleaning up", name, ownerOf(ip).Namespace, ownerOf(ip).Name))
		addr, err := netip.ParseAddr(name)
		if err == nil {
			err = Address{addr, ip.UID}.Release(ctx, r.access)
		}
		errs = append(errs, err)
	}
	r.unused = unused
	return errors.Join(errs...)
}

// allRanges returns the networks of all ServiceCIDRs, ready or not.
func (r *Repair) allRanges(ctx context.Context) ([]Range, error) {
	list, err := r.access.List(ctx, serviceCIDRs(), "")
	if err != nil {
		return nil, fmt.Errorf("list service CIDRs: %w", err)
	}
	var ranges []Range
	for _, obj := range list {
		cidr := obj.(*networkingv1.ServiceCIDR)
		ranges = append(append(ranges, rangesOf(cidr, corev1.IPv4Protocol)...), rangesOf(cidr, corev1.IPv6Protocol)...)
	}
	return ranges, nil
}

// ClusterIPs returns the valid cluster IPs of a service.
func ClusterIPs(svc *corev1.Service) []netip.Addr {
	if svc.Spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	var list []netip.Addr
	for _, text := range svc.Spec.ClusterIPs {
		if addr, ok := ParseAddr(text); ok {
			list = append(list, addr)
		}
	}
	return list
}

// ParseAddr parses an address of a service, which may have leading zeros.
func ParseAddr(text string) (netip.Addr, bool) {
	addr, ok := netip.AddrFromSlice(netutils.ParseIPSloppy(text))
	return addr.Unmap(), ok
}
