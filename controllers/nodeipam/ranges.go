package nodeipam

import (
	"errors"
	"fmt"
	"net/netip"
)

// Errors of a Range; test for them with errors.Is.
var (
	// ErrExhausted: no network is free.
	ErrExhausted = errors.New("CIDR allocation failed; there are no remaining CIDRs left to allocate in the accepted range")
	// ErrOutside: a network is not one of the range.
	ErrOutside = errors.New("out of the range of the cluster's network")
	// ErrRange: a network cannot be divided that way.
	ErrRange = errors.New("the network cannot be divided into such networks")
)

// maxSplit is by how many bits networks of IPv6 may be longer than the range, as in upstream; IPv4 allows for more, within reason.
const (
	maxSplitIPv6 = 16
	maxSplitIPv4 = 24
)

// Range divides a network into networks of nodes and remembers which are taken. It is not safe for concurrent use.
type Range struct {
	network netip.Prefix
	bits    int      // of the nodes' networks
	count   uint64   // of the nodes' networks
	used    []uint64 // a bit for each, as far as any was ever taken
	taken   uint64
	next    uint64 // where the search for a free one begins
}

// NewRange makes a Range of networks with that many bits, all of which are free. It fails with ErrRange.
func NewRange(network netip.Prefix, bits int) (*Range, error) {
	if !network.IsValid() || network.Addr().Is4In6() {
		return nil, fmt.Errorf("%w: %v is none of IPv4 or IPv6", ErrRange, network)
	}
	most := maxSplitIPv4
	if network.Addr().Is6() {
		most = maxSplitIPv6
	}
	if split := bits - network.Bits(); split < 0 || split > most || bits > network.Addr().BitLen() {
		return nil, fmt.Errorf("%w: nodes of %s are to have %d bits, which must be from %d to %d", ErrRange, network, bits,
			network.Bits(), min(network.Bits()+most, network.Addr().BitLen()))
	}
	return &Range{network: network.Masked(), bits: bits, count: 1 << (bits - network.Bits())}, nil
}

// Network returns the network that is divided.
func (r *Range) Network() netip.Prefix { return r.network }

// Next takes a free network: the first one after the last that was taken by Next. It fails with ErrExhausted.
func (r *Range) Next() (netip.Prefix, error) {
	if r.taken == r.count {
		return netip.Prefix{}, ErrExhausted
	}
	at := r.next
	for r.isTaken(at) {
		at = (at + 1) % r.count
	}
	r.next = (at + 1) % r.count
	r.set(at, true)
	return r.at(at), nil
}

// Occupy takes all networks that overlap with another one, whether they are free or not. It fails with ErrOutside if there
// are none.
func (r *Range) Occupy(network netip.Prefix) error { return r.each(network, true) }

// Release frees all networks that overlap with another one. It fails with ErrOutside if there are none.
func (r *Range) Release(network netip.Prefix) error { return r.each(network, false) }

func (r *Range) each(network netip.Prefix, taken bool) error {
	if !r.network.Overlaps(network) {
		return fmt.Errorf("%s: %w %s", network, ErrOutside, r.network)
	}
	first, count := uint64(0), r.count
	if network.Bits() > r.network.Bits() {
		first, count = r.index(network.Masked().Addr()), 1<<max(0, r.bits-network.Bits())
	}
	for i := first; i < first+count; i++ {
		r.set(i, taken)
	}
	return nil
}

func (r *Range) isTaken(i uint64) bool {
	return i/64 < uint64(len(r.used)) && r.used[i/64]&(1<<(i%64)) != 0
}

func (r *Range) set(i uint64, taken bool) {
	if r.isTaken(i) == taken {
		return
	}
	for i/64 >= uint64(len(r.used)) {
		r.used = append(r.used, 0)
	}
	r.used[i/64] ^= 1 << (i % 64)
	if taken {
		r.taken++
	} else {
		r.taken--
	}
}

// index is the number of the network that an address of the range is in: the bits between the two lengths.
func (r *Range) index(address netip.Addr) (i uint64) {
	bytes := address.AsSlice()
	for bit := r.network.Bits(); bit < r.bits; bit++ {
		i = i<<1 | uint64(bytes[bit/8]>>(7-bit%8)&1)
	}
	return i
}

// at is the network with a number.
func (r *Range) at(i uint64) netip.Prefix {
	bytes := r.network.Addr().AsSlice()
	for bit := r.bits - 1; bit >= r.network.Bits(); bit-- {
		bytes[bit/8] |= byte(i&1) << (7 - bit%8)
		i >>= 1
	}
	address, _ := netip.AddrFromSlice(bytes)
	return netip.PrefixFrom(address, r.bits)
}
