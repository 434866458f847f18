package nftables

import (
	"encoding/binary"
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/internal/nft"
	"github.com/keelson-dev/keelson/networkpolicy"
)

// family is an IP family and what depends on it.
type family int

const (
	v4 family = iota
	v6
	families
)

func familyOf(a netip.Addr) family {
	if a.Is6() {
		return v6
	}
	return v4
}

func (f family) suffix() string         { return [...]string{"-4", "-6"}[f] }
func (f family) proto() []byte          { return []byte{[...]uint8{unix.NFPROTO_IPV4, unix.NFPROTO_IPV6}[f]} }
func (f family) bytes() uint32          { return [...]uint32{4, 16}[f] }
func (f family) words() nft.Register    { return nft.Register(f.bytes() / 4) }
func (f family) addrType() nft.DataType { return [...]nft.DataType{nft.IPv4, nft.IPv6}[f] }

func (f family) source(to nft.Register) nft.Expression {
	return nft.Network(to, [...]uint32{12, 8}[f], f.bytes())
}

func (f family) destination(to nft.Register) nft.Expression {
	return nft.Network(to, [...]uint32{16, 24}[f], f.bytes())
}

// direction is that of a connection, as the isolated pod sees it.
type direction int

const (
	egress direction = iota
	ingress
	directions
)

func (d direction) String() string { return [...]string{"egress", "ingress"}[d] }

// isolating are the policies that isolate a pod in the direction.
func (d direction) isolating(i networkpolicy.Isolation) []networkpolicy.Name {
	if d == egress {
		return i.Egress
	}
	return i.Ingress
}

func (d direction) rules(p *networkpolicy.Policy) []networkpolicy.Rule {
	if d == egress {
		return p.Egress
	}
	return p.Ingress
}

// pod loads the address of the isolated pod, peer that of the other side.
func (d direction) pod(f family) nft.Expression {
	if d == egress {
		return f.source(0)
	}
	return f.destination(0)
}

func (d direction) peer(f family) nft.Expression {
	if d == egress {
		return f.destination(0)
	}
	return f.source(0)
}

// Names of the table's permanent parts.
func entry(d direction, f family) string    { return d.String() + f.suffix() }           // chain
func isolated(d direction, f family) string { return d.String() + "-pods" + f.suffix() } // map of addresses to chains
func selves(f family) string                { return "selves" + f.suffix() }             // set of address . address

// Bits of the states of connections.
const (
	established = 1 << 1
	related     = 1 << 2
)

// Messages of ICMPv6 for the discovery of neighbors and routers, which pass bridges.
const (
	protocolICMPv6 = 58
	firstDiscovery = 133
	lastDiscovery  = 137
)

// layout writes all that does not depend on policies.
func layout(t *nft.Transaction) {
	t.Replace()
	t.AddFilter("forward", unix.NF_INET_FORWARD, 0)
	for f := range families {
		t.AddSet(nft.Set{Name: selves(f), Key: []nft.DataType{f.addrType(), f.addrType()}, Comment: "pods to themselves"})
		for d := range directions {
			t.AddSet(nft.Set{Name: isolated(d, f), Key: []nft.DataType{f.addrType()}, Verdicts: true, Comment: "pods that are isolated"})
			t.AddChain(entry(d, f))
		}
	}
	rule := func(chain string, e ...nft.Expression) { t.AddRule(chain, nft.Rule{Expressions: e}) }
	rule("forward", nft.State(0), nft.Mask(0, nft.Native(established|related)), nft.IsNot(0, nft.Native(0)), nft.Verdict(nft.Accept, ""))
	rule("forward", nft.Meta(0, unix.NFT_META_NFPROTO), nft.Is(0, v6.proto()), nft.Meta(0, unix.NFT_META_L4PROTO), nft.Is(0, []byte{protocolICMPv6}),
		nft.Transport(0, 0, 1), nft.AtLeast(0, []byte{firstDiscovery}), nft.AtMost(0, []byte{lastDiscovery}), nft.Verdict(nft.Accept, ""))
	for f := range families {
		rule(entry(egress, f), f.source(0), f.destination(f.words()), nft.In(selves(f), 0), nft.Verdict(nft.Accept, ""))
		for d := range directions {
			rule(entry(d, f), d.pod(f), nft.Decided(isolated(d, f), 0))
			rule("forward", nft.Meta(0, unix.NFT_META_NFPROTO), nft.Is(0, f.proto()), nft.Verdict(nft.Jump, entry(d, f)))
		}
	}
}

func protocolNumber(p corev1.Protocol) byte {
	switch p {
	case corev1.ProtocolUDP:
		return 17
	case corev1.ProtocolSCTP:
		return 132
	default:
		return 6
	}
}

// protocolPort are a protocol and a port as keys have them.
func protocolPort(p corev1.Protocol, port uint16) []byte {
	return append(binary.BigEndian.AppendUint16([]byte{protocolNumber(p), 0, 0, 0}, port), 0, 0)
}

// loadProtocolPort loads the same of a packet.
func loadProtocolPort(to nft.Register) []nft.Expression {
	return []nft.Expression{nft.Meta(to, unix.NFT_META_L4PROTO), nft.Transport(to+1, 2, 2)}
}
