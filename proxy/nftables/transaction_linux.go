package nftables

import (
	"cmp"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/internal/nfnetlink"
	"github.com/keelson-dev/keelson/proxy"
)

const (
	newMessage    = unix.NLM_F_REQUEST | unix.NLM_F_CREATE
	deleteMessage = unix.NLM_F_REQUEST
)

// transaction writes messages about one table.
type transaction struct {
	table string
	m     *nfnetlink.Message
	// next numbers the sets.
	next uint32
}

func (t *transaction) begin(kind uint16, flags uint16) {
	t.m.Add(nfnetlink.Tables<<8|kind, flags, unix.NFPROTO_INET, 0)
}

// replace makes a new, empty table in place of the present one, if there is any.
func (t *transaction) replace() {
	t.addTable()
	t.deleteTable()
	t.addTable()
}

func (t *transaction) addTable() {
	t.begin(unix.NFT_MSG_NEWTABLE, newMessage)
	t.m.Text(unix.NFTA_TABLE_NAME, t.table)
}

func (t *transaction) deleteTable() {
	t.begin(unix.NFT_MSG_DELTABLE, deleteMessage)
	t.m.Text(unix.NFTA_TABLE_NAME, t.table)
}

func (t *transaction) addChain(c chain) {
	t.begin(unix.NFT_MSG_NEWCHAIN, newMessage)
	t.m.Text(unix.NFTA_CHAIN_TABLE, t.table)
	t.m.Text(unix.NFTA_CHAIN_NAME, c.name)
	if c.hook < 0 {
		return
	}
	hook := t.m.Begin(unix.NFTA_CHAIN_HOOK)
	t.m.Uint32(unix.NFTA_HOOK_HOOKNUM, uint32(c.hook))
	t.m.Uint32(unix.NFTA_HOOK_PRIORITY, uint32(c.priority)) //nolint:gosec // the kernel reads it as signed
	t.m.End(hook)
	t.m.Uint32(unix.NFTA_CHAIN_POLICY, accept)
	kind := "filter"
	if c.nat {
		kind = "nat"
	}
	t.m.Text(unix.NFTA_CHAIN_TYPE, kind)
}

func (t *transaction) addRule(chain string, rule []expression) {
	t.begin(unix.NFT_MSG_NEWRULE, newMessage|unix.NLM_F_APPEND)
	t.m.Text(unix.NFTA_RULE_TABLE, t.table)
	t.m.Text(unix.NFTA_RULE_CHAIN, chain)
	at := t.m.Begin(unix.NFTA_RULE_EXPRESSIONS)
	for _, e := range rule {
		e(t.m)
	}
	t.m.End(at)
}

// typeOf is the number of a concatenation of types, and its size.
func typeOf(parts []dataType) (kind, size uint32) {
	for _, p := range parts {
		kind, size = kind<<6|uint32(p), size+p.size()
	}
	return kind, size
}

func (t *transaction) addSet(s set, f family) {
	t.next++
	t.begin(unix.NFT_MSG_NEWSET, newMessage)
	t.m.Text(unix.NFTA_SET_TABLE, t.table)
	t.m.Text(unix.NFTA_SET_NAME, s.kind.name(f))
	t.m.Uint32(unix.NFTA_SET_ID, t.next)
	kind, size := typeOf(s.key)
	flags := s.flags
	if len(s.key) > 1 {
		flags |= setConcat
	}
	if s.verdicts || len(s.data) > 0 {
		flags |= unix.NFT_SET_MAP
	}
	t.m.Uint32(unix.NFTA_SET_FLAGS, flags)
	t.m.Uint32(unix.NFTA_SET_KEY_TYPE, kind)
	t.m.Uint32(unix.NFTA_SET_KEY_LEN, size)
	if s.verdicts {
		t.m.Uint32(unix.NFTA_SET_DATA_TYPE, 0xffffff00) // verdicts
		t.m.Uint32(unix.NFTA_SET_DATA_LEN, 0)
	} else if len(s.data) > 0 {
		kind, size := typeOf(s.data)
		t.m.Uint32(unix.NFTA_SET_DATA_TYPE, kind)
		t.m.Uint32(unix.NFTA_SET_DATA_LEN, size)
	}
	desc := t.m.Begin(unix.NFTA_SET_DESC)
	if s.size != 0 {
		t.m.Uint32(unix.NFTA_SET_DESC_SIZE, s.size)
	}
	if len(s.key) > 1 {
		parts := t.m.Begin(setDescConcat)
		for _, p := range s.key {
			part := t.m.Begin(unix.NFTA_LIST_ELEM)
			t.m.Uint32(setFieldLen, p.length())
			t.m.End(part)
		}
		t.m.End(parts)
	}
	t.m.End(desc)
}

// change is what the elements of one set lose or gain.
func (t *transaction) change(kind uint16, all []element) {
	const enough = 32 << 10 // of bytes in a message, whose attribute may have twice as many
	flags := uint16(deleteMessage)
	if kind == unix.NFT_MSG_NEWSETELEM {
		flags = newMessage
	}
	for len(all) > 0 {
		t.begin(kind, flags)
		t.m.Text(unix.NFTA_SET_ELEM_LIST_TABLE, t.table)
		t.m.Text(unix.NFTA_SET_ELEM_LIST_SET, all[0].set.name(all[0].family))
		list := t.m.Begin(unix.NFTA_SET_ELEM_LIST_ELEMENTS)
		for full := t.m.Len() + enough; len(all) > 0 && t.m.Len() < full; all = all[1:] {
			t.element(&all[0], kind == unix.NFT_MSG_NEWSETELEM)
		}
		t.m.End(list)
	}
}

func (t *transaction) element(e *element, whole bool) {
	at := t.m.Begin(unix.NFTA_LIST_ELEM)
	if e.last {
		t.m.Uint32(unix.NFTA_SET_ELEM_FLAGS, unix.NFT_SET_ELEM_INTERVAL_END)
	}
	value(t.m, unix.NFTA_SET_ELEM_KEY, []byte(e.key))
	if e.end != "" {
		value(t.m, setElemKeyEnd, []byte(e.end))
	}
	switch {
	case !whole || e.value == "":
	case e.set >= picks:
		verdict(t.m, unix.NFTA_SET_ELEM_DATA, verdictGoto, e.value)
	default:
		value(t.m, unix.NFTA_SET_ELEM_DATA, []byte(e.value))
	}
	t.m.End(at)
}

// grouped calls f for the elements of each set.
func grouped(all []element, f func([]element)) {
	slices.SortStableFunc(all, func(a, b element) int { return cmp.Or(cmp.Compare(a.family, b.family), cmp.Compare(a.set, b.set)) })
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].family == all[0].family && all[n].set == all[0].set {
			n++
		}
		f(all[:n])
		all = all[n:]
	}
}

// addChoice adds the chains for a number of endpoints.
func (t *transaction) addChoice(c familyChoice, s proxy.Settings) {
	r := rules{f: c.family, settings: s}
	for by := picks; by <= picksNodeShort; by++ {
		name := c.choice.chain(by, c.family)
		t.addChain(chain{name: name, hook: -1})
		for _, rule := range r.pick(by, c.choice) {
			t.addRule(name, rule)
		}
		t.change(unix.NFT_MSG_NEWSETELEM, []element{{family: c.family, set: by, key: string(native(c.number)), value: name}})
	}
}

// layout writes all that does not depend on services.
func (t *transaction) layout(s proxy.Settings) {
	t.replace()
	for f := range families {
		for _, set := range sets(f) {
			t.addSet(set, f)
		}
		t.change(unix.NFT_MSG_NEWSETELEM, intervals(s.Pods, f, pods))
		t.change(unix.NFT_MSG_NEWSETELEM, intervals(s.NodePorts, f, nodePorts))
		t.change(unix.NFT_MSG_NEWSETELEM, intervals(s.Services, f, ranges))
	}
	all := chains(s)
	for _, c := range all {
		t.addChain(c)
	}
	for _, c := range all {
		for _, rule := range c.rules {
			t.addRule(c.name, rule)
		}
	}
}

// apply writes changes. Deletions come first: a value is changed by deleting the element and adding it.
func (t *transaction) apply(c *changes, s proxy.Settings) {
	var gone, come []element
	for e, change := range c.elements {
		if change.had && change.has && change.was == change.will {
			continue
		}
		if change.had {
			gone = append(gone, e)
		}
		if change.has {
			e.value = change.will
			come = append(come, e)
		}
	}
	for _, choice := range c.choices {
		t.addChoice(choice, s)
	}
	grouped(gone, func(same []element) { t.change(unix.NFT_MSG_DELSETELEM, same) })
	grouped(come, func(same []element) { t.change(unix.NFT_MSG_NEWSETELEM, same) })
}
