package allocation

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"net/netip"
)

// The reasons why a request for an address or a port fails.
var (
	// ErrFull means that nothing is free.
	ErrFull = errors.New("range is full")
	// ErrNotReady means that there is no range to allocate from yet.
	ErrNotReady = errors.New("allocator not ready")
	// ErrNoRange means that no ready range has the address.
	ErrNoRange = errors.New("the provided network does not match the current range")
	// ErrNotInRange means that the range does not have the address.
	ErrNotInRange = errors.New("is not in the valid range")
	// ErrAddressTaken means that the address is allocated.
	ErrAddressTaken = errors.New("provided IP is already allocated")
	// ErrPortTaken means that the port is allocated.
	ErrPortTaken = errors.New("provided port is already allocated")
)

// Range is the usable addresses of a network: all but the network address and, for IPv4, the broadcast address.
type Range struct {
	prefix      netip.Prefix
	first, last netip.Addr
	size        uint64 // number of addresses, at most 2⁶⁴-1
	static      uint64 // number of addresses at the start that form the lower band
}

// NewRange returns the range of a network. IPv6 networks must be /64 or smaller.
func NewRange(network netip.Prefix) (Range, error) {
	if !network.IsValid() {
		return Range{}, errors.New("not a network")
	}
	network = network.Masked()
	if network.Addr().Is6() && network.Bits() < 64 {
		return Range{}, fmt.Errorf("shortest allowed prefix length for service CIDR is 64, got %d", network.Bits())
	}
	host := network.Addr().BitLen() - network.Bits()
	r := Range{prefix: network, first: network.Addr().Next(), size: math.MaxUint64}
	if host < 64 {
		r.size = 1<<host - 1
	}
	if network.Addr().Is4() && r.size > 0 {
		r.size--
	}
	if r.size > 0 {
		r.last = add(r.first, r.size-1)
	}
	r.static = band(host)
	return r, nil
}

// band returns the size of the lower band of a network with the given number of host bits: a sixteenth, at
// least 16 and at most 256, and 0 for a network of up to 16.
func band(host int) uint64 {
	if host <= 4 {
		return 0
	}
	return 1 << min(max(host-4, 4), 8)
}

// Prefix returns the network.
func (r Range) Prefix() netip.Prefix { return r.prefix }

// First returns the first address, by convention that of the service kubernetes.
func (r Range) First() netip.Addr { return r.first }

// Contains reports whether the address is in the range.
func (r Range) Contains(addr netip.Addr) bool {
	return r.size > 0 && addr.BitLen() == r.first.BitLen() && r.first.Compare(addr) <= 0 && addr.Compare(r.last) <= 0
}

// All returns every address once: the upper band before the lower, each cyclically from the seed on.
func (r Range) All(seed uint64) iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		if r.size == 0 {
			return
		}
		_ = cycle(add(r.first, r.static), r.size-r.static, seed, yield) && cycle(r.first, r.static, seed, yield)
	}
}

// cycle yields size addresses from first on, cyclically, beginning at the seed. It reports whether more are
// wanted.
func cycle(first netip.Addr, size, seed uint64, yield func(netip.Addr) bool) bool {
	if size == 0 {
		return true
	}
	start := seed % size
	for i, addr := start, add(first, start); i < size; i, addr = i+1, addr.Next() {
		if !yield(addr) {
			return false
		}
	}
	for i, addr := uint64(0), first; i < start; i, addr = i+1, addr.Next() {
		if !yield(addr) {
			return false
		}
	}
	return true
}

// add returns the n-th address after addr, which must be of the same family.
func add(addr netip.Addr, n uint64) netip.Addr {
	if addr.Is4() {
		b := addr.As4()
		binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(b[:])+uint32(n))
		return netip.AddrFrom4(b)
	}
	b := addr.As16()
	low := binary.BigEndian.Uint64(b[8:])
	binary.BigEndian.PutUint64(b[8:], low+n)
	if low+n < low {
		binary.BigEndian.PutUint64(b[:8], binary.BigEndian.Uint64(b[:8])+1)
	}
	return netip.AddrFrom16(b)
}
