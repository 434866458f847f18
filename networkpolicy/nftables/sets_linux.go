package nftables

import (
	"fmt"
	"net/netip"

	"github.com/keelson-dev/keelson/internal/nft"
	"github.com/keelson-dev/keelson/networkpolicy"
)

// setKey is what a set is about. Rules that are about the same share it.
type setKey struct {
	sort   sort
	family family
	// selection is set for members, port for named.
	selection networkpolicy.Selection
	port      networkpolicy.PortName
	// fixed are the elements of the others, which never change: pairs of the first and the last.
	fixed string
}

type sort int

const (
	members sort = iota // address, of a selection
	blocks              // ranges of addresses
	ports               // protocol . port, of ranges
	named               // address . protocol . port
)

func (k *setKey) set(name string) nft.Set {
	a := k.family.addrType()
	switch k.sort {
	case members:
		return nft.Set{Name: name, Key: []nft.DataType{a}, Comment: k.selection.String()}
	case blocks:
		return nft.Set{Name: name, Key: []nft.DataType{a}, Ranges: true}
	case ports:
		return nft.Set{Name: name, Key: []nft.DataType{nft.Protocol, nft.Port}, Ranges: true}
	default:
		return nft.Set{Name: name, Key: []nft.DataType{a, nft.Protocol, nft.Port}, Comment: fmt.Sprintf("port %s of %s", k.port.Name, k.port.Protocol)}
	}
}

func (s sort) String() string { return [...]string{"pods", "blocks", "ports", "named-ports"}[s] }

// load loads what the set is about, given how the peer's address is loaded.
func (k *setKey) load(peer nft.Expression) []nft.Expression {
	switch k.sort {
	case members, blocks:
		return []nft.Expression{peer}
	case ports:
		return loadProtocolPort(0)
	default:
		return append([]nft.Expression{k.family.destination(0)}, loadProtocolPort(k.family.words())...)
	}
}

// elements are those of the set according to the tables.
func (k *setKey) elements(t *networkpolicy.Tables) (all []nft.Element) {
	switch k.sort {
	case members:
		return k.members(t.Selections[k.selection])
	case named:
		return k.named(t.Ports[k.port])
	case ports:
		for at := 0; at < len(k.fixed); at += 16 {
			all = append(all, nft.Element{Key: k.fixed[at : at+8], End: k.fixed[at+8 : at+16]})
		}
	case blocks:
		size := int(k.family.bytes())
		for at := 0; at < len(k.fixed); at += 2 * size {
			first, last := k.fixed[at:at+size], k.fixed[at+size:at+2*size]
			all = append(all, nft.Element{Key: first})
			a, _ := netip.AddrFromSlice([]byte(last))
			if after := a.Next(); after.IsValid() {
				all = append(all, nft.Element{Key: string(after.AsSlice()), Last: true})
			}
		}
	}
	return all
}

func (k *setKey) members(addresses []netip.Addr) (all []nft.Element) {
	for _, a := range addresses {
		if familyOf(a) == k.family {
			all = append(all, nft.Element{Key: string(a.AsSlice())})
		}
	}
	return all
}

func (k *setKey) named(at []netip.AddrPort) (all []nft.Element) {
	for _, to := range at {
		if familyOf(to.Addr()) == k.family {
			all = append(all, nft.Element{Key: string(append(to.Addr().AsSlice(), protocolPort(k.port.Protocol, to.Port())...))})
		}
	}
	return all
}

// lines are the rules, as the kernel has them, of a rule of a policy, and the sets they refer to.
func lines(r *networkpolicy.Rule, f family) (all [][]setKey) {
	var peers, to [][]setKey
	if r.Everyone {
		peers = append(peers, nil)
	} else {
		for _, s := range r.Pods {
			peers = append(peers, []setKey{{sort: members, family: f, selection: s}})
		}
		if fixed := fixedBlocks(r.Blocks, f); fixed != "" {
			peers = append(peers, []setKey{{sort: blocks, family: f, fixed: fixed}})
		}
	}
	if r.AllPorts {
		to = append(to, nil)
	} else {
		if len(r.Ports) > 0 {
			to = append(to, []setKey{{sort: ports, fixed: fixedPorts(r.Ports)}})
		}
		for _, n := range r.Named {
			to = append(to, []setKey{{sort: named, family: f, port: n}})
		}
	}
	for _, p := range peers {
		for _, t := range to {
			all = append(all, append(append([]setKey{}, p...), t...))
		}
	}
	return all
}

func fixedBlocks(ranges []networkpolicy.Range, f family) string {
	var all []byte
	for _, r := range ranges {
		if familyOf(r.First) == f {
			all = append(append(all, r.First.AsSlice()...), r.Last.AsSlice()...)
		}
	}
	return string(all)
}

func fixedPorts(ranges []networkpolicy.PortRange) string {
	var all []byte
	for _, r := range ranges {
		all = append(append(all, protocolPort(r.Protocol, r.First)...), protocolPort(r.Protocol, r.Last)...)
	}
	return string(all)
}
