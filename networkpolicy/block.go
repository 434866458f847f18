package networkpolicy

import (
	"fmt"
	"net/netip"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	netutils "k8s.io/utils/net"
)

// readBlock returns the ranges that remain of a block without its exceptions.
func readBlock(b *networkingv1.IPBlock) ([]Range, error) {
	whole, err := readPrefix(b.CIDR)
	if err != nil {
		return nil, fmt.Errorf("ipBlock.cidr: %w", err)
	}
	left := []Range{rangeOf(whole)}
	for i, text := range b.Except {
		except, err := readPrefix(text)
		if err != nil { // what it was to keep out is not known
			return nil, fmt.Errorf("ipBlock.except[%d]: %w", i, err)
		}
		left = without(left, rangeOf(except))
	}
	return left, nil
}

// readPrefix reads a range as the API does, which has stored some with leading zeros or bits beyond the prefix.
func readPrefix(text string) (netip.Prefix, error) {
	_, network, err := netutils.ParseCIDRSloppy(text)
	if err != nil {
		return netip.Prefix{}, err
	}
	a, _ := netip.AddrFromSlice(network.IP)
	bits, _ := network.Mask.Size()
	if a.Is4In6() { // the prefix has the 96 bits that say so
		a, bits = a.Unmap(), bits-96
	}
	return netip.PrefixFrom(a, bits).Masked(), nil
}

func rangeOf(p netip.Prefix) Range {
	last := p.Addr().AsSlice()
	for i := p.Bits(); i < len(last)*8; i++ {
		last[i/8] |= 1 << (7 - i%8)
	}
	a, _ := netip.AddrFromSlice(last)
	return Range{p.Addr(), a}
}

// without cuts a range out of others.
func without(all []Range, out Range) (left []Range) {
	for _, r := range all {
		if r.First.BitLen() != out.First.BitLen() || r.Last.Less(out.First) || out.Last.Less(r.First) {
			left = append(left, r)
			continue
		}
		if r.First.Less(out.First) {
			left = append(left, Range{r.First, out.First.Prev()})
		}
		if out.Last.Less(r.Last) {
			left = append(left, Range{out.Last.Next(), r.Last})
		}
	}
	return left
}

// mergeRanges sorts ranges and joins those that overlap or are adjacent.
func mergeRanges(all []Range) (merged []Range) {
	slices.SortFunc(all, func(a, b Range) int { return a.First.Compare(b.First) }) // IPv4 comes first
	for _, r := range all {
		n := len(merged) - 1
		if n < 0 || merged[n].First.BitLen() != r.First.BitLen() {
			merged = append(merged, r)
			continue
		}
		if after := merged[n].Last.Next(); after.IsValid() && after.Less(r.First) {
			merged = append(merged, r)
			continue
		}
		if merged[n].Last.Less(r.Last) {
			merged[n].Last = r.Last
		}
	}
	return merged
}
