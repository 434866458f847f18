package bridge

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// table is the name of the bridge's nftables table.
func (b *Bridge) table() string { return "keelson-" + b.options.Bridge }

// rules returns the table as input for nft; it replaces an existing table in one transaction.
func (b *Bridge) rules() string {
	var s strings.Builder
	fmt.Fprintf(&s, "table inet %s\ndelete table inet %s\n", b.table(), b.table())
	if b.options.NoMasquerade {
		return s.String()
	}
	fmt.Fprintf(&s, "table inet %s {\n\tchain postrouting {\n", b.table())
	s.WriteString("\t\ttype nat hook postrouting priority 100; policy accept;\n")
	for _, subnet := range b.subnets {
		family, multicast := "ip", "224.0.0.0/4"
		if subnet.Addr().Is6() {
			family, multicast = "ip6", "ff00::/8"
		}
		stay := []netip.Prefix{subnet, netip.MustParsePrefix(multicast)}
		for _, p := range b.options.Internal {
			if p.Addr().Is4() == subnet.Addr().Is4() {
				stay = append(stay, p.Masked())
			}
		}
		var texts []string
		for _, p := range outermost(stay) {
			texts = append(texts, p.String())
		}
		fmt.Fprintf(&s, "\t\t%s saddr %s %s daddr != { %s } masquerade fully-random\n", family, subnet, family, strings.Join(texts, ", "))
	}
	s.WriteString("\t}\n}\n")
	return s.String()
}

// outermost removes the ranges contained in others: nft allows no overlaps.
func outermost(all []netip.Prefix) []netip.Prefix {
	slices.SortFunc(all, func(a, b netip.Prefix) int {
		if a.Bits() != b.Bits() {
			return a.Bits() - b.Bits()
		}
		return a.Addr().Compare(b.Addr())
	})
	var outer []netip.Prefix
	for _, p := range all {
		if !slices.ContainsFunc(outer, func(o netip.Prefix) bool { return o.Overlaps(p) }) {
			outer = append(outer, p)
		}
	}
	return outer
}
