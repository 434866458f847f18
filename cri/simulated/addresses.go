package simulated

import (
	"encoding/binary"
	"errors"
	"hash/fnv"
	"net/netip"
)

// pool allocates addresses of a prefix. Its search starts at a place derived from the owner, so that the result does
// not depend on which pod came first.
type pool struct {
	prefix netip.Prefix
	size   uint64 // usable addresses
	used   map[netip.Addr]struct{}
}

func newPool(prefix netip.Prefix) *pool {
	bits := min(prefix.Addr().BitLen()-prefix.Bits(), 32)
	p := &pool{prefix: prefix.Masked(), used: map[netip.Addr]struct{}{}}
	if total := uint64(1) << bits; total > 3 {
		p.size = total - 3
	}
	return p
}

func (p *pool) take(purpose string) (netip.Addr, error) {
	if uint64(len(p.used)) >= p.size {
		return netip.Addr{}, errors.New("no address is free in " + p.prefix.String())
	}
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(purpose))
	for at := hash.Sum64() % p.size; ; at = (at + 1) % p.size {
		addr := p.at(at + 2)
		if _, taken := p.used[addr]; !taken {
			p.used[addr] = struct{}{}
			return addr, nil
		}
	}
}

// at returns address number n of the prefix.
func (p *pool) at(n uint64) netip.Addr {
	raw := p.prefix.Addr().AsSlice()
	tail := raw[len(raw)-4:]
	binary.BigEndian.PutUint32(tail, binary.BigEndian.Uint32(tail)+uint32(n))
	addr, _ := netip.AddrFromSlice(raw)
	return addr
}

func (p *pool) give(ips []string) {
	for _, ip := range ips {
		if addr, err := netip.ParseAddr(ip); err == nil {
			delete(p.used, addr)
		}
	}
}
