package nftables

import (
	"encoding/binary"
	"hash/fnv"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/proxy"
)

// An element is one of a set: its key, and its value if the set is a map. Both are as the kernel has them.
type element struct {
	family     family
	set        kind
	key, value string
	// end is the end of a key that is a range.
	end string
	// last is set for an element that only ends a range before it.
	last bool
}

// front is an address and port by which a service is reached. The zero address stands for those of node ports.
type front struct {
	address  netip.Addr
	port     uint16
	protocol uint8
}

func (f front) family() family { return familyOf(f.address.Is6()) }

func (f front) key() []byte {
	key := make([]byte, 0, 24)
	key = append(key, f.address.AsSlice()...)
	key = append(key, f.protocol, 0, 0, 0)
	return append(binary.BigEndian.AppendUint16(key, f.port), 0, 0)
}

// target is a pool of endpoints and what its chain is found by. It is zero if there are no endpoints.
type target struct{ choice, pool uint32 }

func (t target) value() string { return string(native(t.pool, t.choice, t.pool)) }

// effect is what a service does with packets to one of its fronts.
type effect struct {
	to, short  target // of services and shortcuts
	masquerade bool
	unserved   proxy.Action // Reject, Drop or, if endpoints serve it, Pass
	sources    []netip.Prefix
}

func (e effect) equal(o effect) bool {
	return e.to == o.to && e.short == o.short && e.masquerade == o.masquerade && e.unserved == o.unserved && slices.Equal(e.sources, o.sources)
}

// elements are what makes the effect.
func (e effect) elements(at front) (all []element) {
	f, key := at.family(), string(at.key())
	add := func(when bool, set kind, value string) {
		if when {
			all = append(all, element{family: f, set: set, key: key, value: value})
		}
	}
	add(e.to != target{}, services, e.to.value())
	add(e.short != target{}, shortcuts, e.short.value())
	add(e.masquerade, masqueraded, "")
	add(e.unserved == proxy.Reject, rejected, "")
	add(e.unserved == proxy.Drop, dropped, "")
	add(len(e.sources) > 0, firewalled, "")
	for _, r := range merged(e.sources, f) {
		last := lastOf(netip.PrefixFrom(r[0], 0))
		if r[1].IsValid() {
			last = r[1].Prev()
		}
		all = append(all, element{family: f, set: allowed, key: key + string(r[0].AsSlice()), end: key + string(last.AsSlice())})
	}
	return all
}

// lastOf is the last address of a range.
func lastOf(p netip.Prefix) netip.Addr {
	a := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < len(a)*8; i++ {
		a[i/8] |= 1 << (7 - i%8)
	}
	last, _ := netip.AddrFromSlice(a)
	return last
}

// merged joins overlapping and adjacent ranges, which the kernel's sets of ranges need, into pairs of the first address
// and the one after the last, which is invalid at the end of the address space.
func merged(ranges []netip.Prefix, f family) (all [][2]netip.Addr) {
	ranges = slices.DeleteFunc(slices.Clone(ranges), func(p netip.Prefix) bool { return familyOf(p.Addr().Is6()) != f })
	slices.SortFunc(ranges, func(a, b netip.Prefix) int { return a.Masked().Compare(b.Masked()) })
	for _, p := range ranges {
		first, after := p.Masked().Addr(), lastOf(p).Next()
		if n := len(all) - 1; n >= 0 && (!all[n][1].IsValid() || first.Compare(all[n][1]) <= 0) {
			if all[n][1].IsValid() && (!after.IsValid() || after.Compare(all[n][1]) > 0) {
				all[n][1] = after
			}
			continue
		}
		all = append(all, [2]netip.Addr{first, after})
	}
	return all
}

// intervals are the elements of a set of ranges.
func intervals(ranges []netip.Prefix, f family, set kind) (all []element) {
	for _, r := range merged(ranges, f) {
		all = append(all, element{family: f, set: set, key: string(r[0].AsSlice())})
		if r[1].IsValid() {
			all = append(all, element{family: f, set: set, key: string(r[1].AsSlice()), last: true})
		}
	}
	return all
}

// identity names a port of a service, as long as it exists.
type identity struct {
	service  proxy.Service
	port     string
	protocol corev1.Protocol
	is6      bool
}

func identityOf(s proxy.Service, p *proxy.Port) identity {
	return identity{s, p.Name, p.Protocol, p.Is6()}
}

// number is what stands for the port in the kernel: the same after a restart, unless two have the same hash. Its lowest
// bit is free to tell the two pools of a port apart.
func (i identity) number(attempt byte) uint32 {
	h := fnv.New32a()
	for _, s := range []string{i.service.Namespace, i.service.Name, i.port, string(i.protocol)} {
		_, _ = h.Write(append([]byte(s), 0))
	}
	if i.is6 {
		attempt ^= 0x80
	}
	_, _ = h.Write([]byte{attempt})
	return h.Sum32() &^ 1
}

func protocolNumber(p corev1.Protocol) uint8 {
	switch p {
	case corev1.ProtocolUDP:
		return 17
	case corev1.ProtocolSCTP:
		return 132
	default:
		return 6
	}
}

// plan is what one port of a service needs.
type plan struct {
	port    *proxy.Port
	number  uint32
	choices func(choice) uint32 // numbers them
}

func (p plan) choice(pool []netip.AddrPort) choice {
	return choice{n: uint32(len(pool)), affinity: p.port.Affinity} //nolint:gosec // a service has fewer
}

func (p plan) to(pool []netip.AddrPort, number uint32) target {
	if len(pool) == 0 {
		return target{}
	}
	return target{p.choices(p.choice(pool)), number}
}

// fronts calls claim for all that the port is reached by.
func (p plan) fronts(claim func(front, effect)) {
	port, protocol := p.port, protocolNumber(p.port.Protocol)
	cluster, local := p.to(port.Cluster, p.number), p.to(port.Local, p.number|1)
	internal := effect{to: cluster}
	if port.InternalLocal {
		internal.to = local
	}
	outside := effect{to: cluster, masquerade: cluster != target{}}
	if port.ExternalLocal {
		outside = effect{to: local, short: cluster}
	}
	for _, e := range []*effect{&internal, &outside} {
		if e.to == (target{}) {
			e.unserved = port.Unserved()
		}
	}
	claim(front{port.ClusterIP, port.Port, protocol}, internal)
	for _, a := range port.Addresses() {
		if a == port.ClusterIP {
			continue
		}
		e := outside
		if slices.Contains(port.LoadBalancers, a) {
			e.sources = port.Sources
		}
		claim(front{a, port.Port, protocol}, e)
	}
	if port.NodePort != 0 {
		claim(front{zero(port.Is6()), port.NodePort, protocol}, outside)
	}
}

// zero is the address that stands for all of the host.
func zero(is6 bool) netip.Addr {
	if is6 {
		return netip.IPv6Unspecified()
	}
	return netip.IPv4Unspecified()
}

// pools calls own for the elements that belong to no other port: the endpoints.
func (p plan) pools(own func(element)) {
	f := familyOf(p.port.Is6())
	var numbers map[netip.AddrPort]uint32
	if p.port.Affinity > 0 {
		numbers = numbersOf(p.port.Cluster, p.port.Local)
	}
	for which, pool := range [][]netip.AddrPort{p.port.Cluster, p.port.Local} {
		number := p.number | uint32(which) //nolint:gosec // 0 or 1
		for i, to := range pool {
			key := string(native(number, uint32(i))) //nolint:gosec // an index
			if numbers == nil {
				own(element{family: f, set: endpoints, key: key, value: endpointValue(to)})
				continue
			}
			own(element{family: f, set: numbered, key: key, value: string(native(0, numbers[to]))})
			own(element{family: f, set: members, key: string(native(numbers[to], number)), value: endpointValue(to)})
		}
	}
}

// numbersOf numbers endpoints of one port. A number remains the same as long as the endpoint is there, unless two have the
// same hash.
func numbersOf(pools ...[]netip.AddrPort) map[netip.AddrPort]uint32 {
	all := slices.Concat(pools...)
	slices.SortFunc(all, netip.AddrPort.Compare)
	numbers, taken := map[netip.AddrPort]uint32{}, map[uint32]bool{}
	for _, to := range slices.Compact(all) {
		h := fnv.New32a()
		_, _ = h.Write([]byte(endpointValue(to)))
		n := h.Sum32()
		for taken[n] {
			n++
		}
		numbers[to], taken[n] = n, true
	}
	return numbers
}

func endpointValue(to netip.AddrPort) string {
	return string(append(binary.BigEndian.AppendUint16(to.Addr().AsSlice(), to.Port()), 0, 0))
}

// hairpin is the key of an endpoint that may reach itself.
func hairpin(to netip.AddrPort, protocol uint8) element {
	a := to.Addr().AsSlice()
	key := append(slices.Clone(a), a...)
	key = append(key, protocol, 0, 0, 0)
	key = append(binary.BigEndian.AppendUint16(key, to.Port()), 0, 0)
	return element{family: familyOf(to.Addr().Is6()), set: hairpins, key: string(key)}
}
