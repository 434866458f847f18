package announce

import (
	"encoding/binary"
	"net/netip"

	"github.com/keelson-dev/keelson/cni/bridge"
)

const (
	etherARP  = 0x0806
	etherIPv6 = 0x86dd
)

// packet is what tells all ports of a bridge who has an address: what follows an Ethernet header with the destination and
// the type. With IPv6 it comes from the source.
func packet(source netip.Addr, e bridge.Endpoint) (to [6]byte, kind uint16, payload []byte) {
	if e.Address.Is4() {
		return [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, etherARP, announcement(e)
	}
	all := netip.MustParseAddr("ff02::1").As16()
	message := advertisement(source.As16(), all, e)
	p := binary.BigEndian.AppendUint16([]byte{0x60, 0, 0, 0}, uint16(len(message))) //nolint:gosec // 32
	const icmpv6, hops = 58, 255                                                    // others are not accepted from neighbors
	p = append(append(append(p, icmpv6, hops), source.AsSlice()...), all[:]...)
	return [6]byte{0x33, 0x33, all[12], all[13], all[14], all[15]}, etherIPv6, append(p, message...)
}

// announcement is an ARP request for the address that also has it as its sender.
func announcement(e bridge.Endpoint) []byte {
	const ethernet10Mb, ipv4, request = 1, 0x0800, 1
	var p []byte
	p = binary.BigEndian.AppendUint16(p, ethernet10Mb)
	p = binary.BigEndian.AppendUint16(p, ipv4)
	p = append(p, 6, 4)
	p = binary.BigEndian.AppendUint16(p, request)
	p = append(append(p, e.Hardware...), e.Address.AsSlice()...)
	return append(append(p, make([]byte, 6)...), e.Address.AsSlice()...)
}

// advertisement is a neighbor advertisement that replaces what its receivers know.
func advertisement(source, destination [16]byte, e bridge.Endpoint) []byte {
	const kind, override, targetLinkLayer = 136, 0x20, 2
	m := []byte{kind, 0, 0, 0, override, 0, 0, 0}
	m = append(m, e.Address.AsSlice()...)
	m = append(m, targetLinkLayer, 1) // in units of eight bytes
	m = append(m, e.Hardware...)
	var sum uint32
	add := func(b []byte) {
		for ; len(b) > 1; b = b[2:] {
			sum += uint32(binary.BigEndian.Uint16(b))
		}
	}
	add(source[:])
	add(destination[:])
	add(m)
	sum += uint32(len(m)) + 58 //nolint:gosec // 32
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	binary.BigEndian.PutUint16(m[2:], ^uint16(sum)) //nolint:gosec // folded
	return m
}
