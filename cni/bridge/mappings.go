package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// mappingTable is the table of the portmap plugin's nftables backend. All networks of a host share it, one for each
// family.
const mappingTable = "cni_hostport"

// mapping is a rule of that table that leads to an address.
type mapping struct {
	chain, container string
	handle           int
	address          netip.Addr
}

// removeMappings removes the rules that lead into the bridge's subnets for containers that are not live, and the table
// if it becomes empty: otherwise every packet of the host would pass through it.
func (b *Bridge) removeMappings(ctx context.Context, live func(containerID string) bool) error {
	out, err := b.options.Run(ctx, nil, "nft", "-j", "list", "tables")
	if err != nil {
		return err
	}
	for _, family := range mappingFamilies(out) {
		const tries = 5 // others may change the table concurrently, and nft is atomic
		for try := 1; ; try++ {
			out, err := b.options.Run(ctx, nil, "nft", "-j", "list", "table", family, mappingTable)
			if err != nil {
				break // it is gone
			}
			script := b.dropMappings(family, mappings(out), live)
			if script == "" {
				break
			}
			if _, err = b.options.Run(ctx, []byte(script), "nft", "-f", "-"); err == nil {
				break
			}
			if try == tries || ctx.Err() != nil {
				return fmt.Errorf("removing port mappings: %w", err)
			}
		}
	}
	return nil
}

// dropMappings returns the commands for nft, or nothing.
func (b *Bridge) dropMappings(family string, all []mapping, live func(containerID string) bool) string {
	var s strings.Builder
	left := 0
	for _, m := range all {
		ours := slices.ContainsFunc(b.subnets, func(p netip.Prefix) bool { return p.Contains(m.address) })
		if !ours || live(m.container) {
			left++
			continue
		}
		fmt.Fprintf(&s, "delete rule %s %s %s handle %d\n", family, mappingTable, m.chain, m.handle)
	}
	if left == 0 {
		// Deleting a chain fails if rules were added meanwhile; deleting a table would not.
		for _, chain := range []string{"prerouting", "output", "hostports_all"} {
			fmt.Fprintf(&s, "flush chain %s %s %s\n", family, mappingTable, chain)
		}
		fmt.Fprintf(&s, "delete chain %s %s hostports\ndelete table %s %s\n", family, mappingTable, family, mappingTable)
	}
	return s.String()
}

type nftList struct {
	Objects []struct {
		Table *struct {
			Family, Name string
		} `json:"table"`
		Rule *struct {
			Chain, Comment string
			Handle         int
			Expr           json.RawMessage
		} `json:"rule"`
	} `json:"nftables"`
}

// mappingFamilies returns the families in which the plugin has a table.
func mappingFamilies(out []byte) []string {
	var list nftList
	if json.Unmarshal(out, &list) != nil {
		return nil
	}
	var families []string
	for _, o := range list.Objects {
		if o.Table != nil && o.Table.Name == mappingTable {
			families = append(families, o.Table.Family)
		}
	}
	return families
}

// mappings returns the rules of a table that lead to an address: each belongs to one container.
func mappings(out []byte) []mapping {
	var list nftList
	if json.Unmarshal(out, &list) != nil {
		return nil
	}
	var all []mapping
	for _, o := range list.Objects {
		if o.Rule == nil || o.Rule.Chain != "hostports" && o.Rule.Chain != "masquerading" {
			continue
		}
		m := mapping{chain: o.Rule.Chain, container: o.Rule.Comment, handle: o.Rule.Handle}
		if o.Rule.Chain == "hostports" {
			m.address = target(o.Rule.Expr)
		} else {
			m.address = lastAddress(o.Rule.Expr)
		}
		all = append(all, m)
	}
	return all
}

// target returns the destination of a rule.
func target(expr json.RawMessage) netip.Addr {
	var statements []struct {
		DNAT struct {
			Addr string `json:"addr"`
		} `json:"dnat"`
	}
	_ = json.Unmarshal(expr, &statements) // statements of other kinds stay empty
	for _, s := range statements {
		if addr, err := netip.ParseAddr(s.DNAT.Addr); err == nil {
			return addr
		}
	}
	return netip.Addr{}
}

// lastAddress is the last address that a rule names: of two, the destination's.
func lastAddress(expr json.RawMessage) (last netip.Addr) {
	for decoder := json.NewDecoder(bytes.NewReader(expr)); ; {
		token, err := decoder.Token()
		if err != nil {
			return last
		}
		if text, ok := token.(string); ok {
			if addr, err := netip.ParseAddr(text); err == nil {
				last = addr
			}
		}
	}
}
