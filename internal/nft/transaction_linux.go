package nft

import (
	"golang.org/x/sys/unix"

	"github.com/keelson-dev/keelson/internal/nfnetlink"
)

const (
	newMessage    = unix.NLM_F_REQUEST | unix.NLM_F_CREATE
	deleteMessage = unix.NLM_F_REQUEST
)

// Transaction writes messages about one table.
type Transaction struct {
	Table string
	M     *nfnetlink.Message
	// next numbers the sets.
	next uint32
}

func (t *Transaction) begin(kind uint16, flags uint16) {
	t.M.Add(nfnetlink.Tables<<8|kind, flags, unix.NFPROTO_INET, 0)
}

// Replace makes a new, empty table in place of the present one, if there is any.
func (t *Transaction) Replace() {
	t.Remove()
	t.addTable()
}

// Remove removes the table, if there is one.
func (t *Transaction) Remove() {
	t.addTable()
	t.begin(unix.NFT_MSG_DELTABLE, deleteMessage)
	t.M.Text(unix.NFTA_TABLE_NAME, t.Table)
}

func (t *Transaction) addTable() {
	t.begin(unix.NFT_MSG_NEWTABLE, newMessage)
	t.M.Text(unix.NFTA_TABLE_NAME, t.Table)
}

// AddChain adds a chain that others lead to.
func (t *Transaction) AddChain(name string) {
	t.begin(unix.NFT_MSG_NEWCHAIN, newMessage)
	t.M.Text(unix.NFTA_CHAIN_TABLE, t.Table)
	t.M.Text(unix.NFTA_CHAIN_NAME, name)
}

// AddFilter adds a chain where packets enter at a hook; it accepts what none of its rules has decided.
func (t *Transaction) AddFilter(name string, hook uint32, priority int32) {
	t.AddChain(name)
	at := t.M.Begin(unix.NFTA_CHAIN_HOOK)
	t.M.Uint32(unix.NFTA_HOOK_HOOKNUM, hook)
	t.M.Uint32(unix.NFTA_HOOK_PRIORITY, uint32(priority)) //nolint:gosec // the kernel reads it as signed
	t.M.End(at)
	t.M.Uint32(unix.NFTA_CHAIN_POLICY, Accept)
	t.M.Text(unix.NFTA_CHAIN_TYPE, "filter")
}

// DeleteChain deletes a chain with its rules.
func (t *Transaction) DeleteChain(name string) {
	t.begin(unix.NFT_MSG_DELCHAIN, deleteMessage)
	t.M.Text(unix.NFTA_CHAIN_TABLE, t.Table)
	t.M.Text(unix.NFTA_CHAIN_NAME, name)
}

// FlushChain deletes the rules of a chain.
func (t *Transaction) FlushChain(name string) {
	t.begin(unix.NFT_MSG_DELRULE, deleteMessage)
	t.M.Text(unix.NFTA_RULE_TABLE, t.Table)
	t.M.Text(unix.NFTA_RULE_CHAIN, name)
}

// Rule is one of a chain.
type Rule struct {
	Expressions []Expression
	// Comment is for those who list rules.
	Comment string
}

// AddRule adds a rule to the end of a chain.
func (t *Transaction) AddRule(chain string, r Rule) {
	t.begin(unix.NFT_MSG_NEWRULE, newMessage|unix.NLM_F_APPEND)
	t.M.Text(unix.NFTA_RULE_TABLE, t.Table)
	t.M.Text(unix.NFTA_RULE_CHAIN, chain)
	at := t.M.Begin(unix.NFTA_RULE_EXPRESSIONS)
	for _, e := range r.Expressions {
		e(t.M)
	}
	t.M.End(at)
	t.comment(unix.NFTA_RULE_USERDATA, ruleComment, r.Comment)
}

// Types of what nft keeps with rules and sets.
const (
	ruleComment = 0
	setComment  = 7
)

// comment writes a comment as nft does, cut to its limit.
func (t *Transaction) comment(kind uint16, of byte, text string) {
	if text == "" {
		return
	}
	text = text[:min(len(text), 127)]
	t.M.Bytes(kind, append(append([]byte{of, byte(len(text) + 1)}, text...), 0)) //nolint:gosec // it is short
}

// DataType is the type of a part of a key, by which other programs show it.
type DataType uint32

// The types.
const (
	IPv4     DataType = 7
	IPv6     DataType = 8
	Protocol DataType = 12
	Port     DataType = 13
)

// size is that in registers, length without padding.
func (t DataType) size() uint32 { return (t.length() + 3) &^ 3 }

func (t DataType) length() uint32 {
	return map[DataType]uint32{IPv4: 4, IPv6: 16, Protocol: 1, Port: 2}[t]
}

// Set describes a set or a map.
type Set struct {
	Name string
	// Key is the type of keys; several are a concatenation.
	Key []DataType
	// Ranges: keys are ranges. Verdicts: it is a map to jumps.
	Ranges, Verdicts bool
	Comment          string
}

// AddSet adds a set without elements.
func (t *Transaction) AddSet(s Set) {
	t.next++
	t.begin(unix.NFT_MSG_NEWSET, newMessage)
	t.M.Text(unix.NFTA_SET_TABLE, t.Table)
	t.M.Text(unix.NFTA_SET_NAME, s.Name)
	t.M.Uint32(unix.NFTA_SET_ID, t.next)
	var flags, kind, size uint32
	for _, p := range s.Key {
		kind, size = kind<<6|uint32(p), size+p.size()
	}
	if s.Ranges {
		flags |= unix.NFT_SET_INTERVAL
	}
	if len(s.Key) > 1 {
		flags |= setConcat
	}
	if s.Verdicts {
		flags |= unix.NFT_SET_MAP
	}
	t.M.Uint32(unix.NFTA_SET_FLAGS, flags)
	t.M.Uint32(unix.NFTA_SET_KEY_TYPE, kind)
	t.M.Uint32(unix.NFTA_SET_KEY_LEN, size)
	if s.Verdicts {
		t.M.Uint32(unix.NFTA_SET_DATA_TYPE, 0xffffff00) // verdicts
		t.M.Uint32(unix.NFTA_SET_DATA_LEN, 0)
	}
	desc := t.M.Begin(unix.NFTA_SET_DESC)
	if len(s.Key) > 1 {
		parts := t.M.Begin(setDescConcat)
		for _, p := range s.Key {
			part := t.M.Begin(unix.NFTA_LIST_ELEM)
			t.M.Uint32(setFieldLen, p.length())
			t.M.End(part)
		}
		t.M.End(parts)
	}
	t.M.End(desc)
	t.comment(unix.NFTA_SET_USERDATA, setComment, s.Comment)
}

// DeleteSet deletes a set with its elements.
func (t *Transaction) DeleteSet(name string) {
	t.begin(unix.NFT_MSG_DELSET, deleteMessage)
	t.M.Text(unix.NFTA_SET_TABLE, t.Table)
	t.M.Text(unix.NFTA_SET_NAME, name)
}

// Element is one of a set, as the kernel has it.
type Element struct {
	Key string
	// End is the end of a range of a concatenation. Ranges of single keys have two elements, of which the second, behind
	// the range, is Last.
	End  string
	Last bool
	// Jump is the chain that a map leads to.
	Jump string
}

// AddElements adds elements to a set.
func (t *Transaction) AddElements(set string, all []Element) {
	t.elements(unix.NFT_MSG_NEWSETELEM, newMessage, set, all)
}

// DeleteElements deletes elements, whatever they lead to.
func (t *Transaction) DeleteElements(set string, all []Element) {
	t.elements(unix.NFT_MSG_DELSETELEM, deleteMessage, set, all)
}

func (t *Transaction) elements(kind, flags uint16, set string, all []Element) {
	const enough = 32 << 10 // of bytes in a message, whose attribute may have twice as many
	for len(all) > 0 {
		t.begin(kind, flags)
		t.M.Text(unix.NFTA_SET_ELEM_LIST_TABLE, t.Table)
		t.M.Text(unix.NFTA_SET_ELEM_LIST_SET, set)
		list := t.M.Begin(unix.NFTA_SET_ELEM_LIST_ELEMENTS)
		for full := t.M.Len() + enough; len(all) > 0 && t.M.Len() < full; all = all[1:] {
			t.element(&all[0], kind == unix.NFT_MSG_NEWSETELEM)
		}
		t.M.End(list)
	}
}

func (t *Transaction) element(e *Element, whole bool) {
	at := t.M.Begin(unix.NFTA_LIST_ELEM)
	if e.Last {
		t.M.Uint32(unix.NFTA_SET_ELEM_FLAGS, unix.NFT_SET_ELEM_INTERVAL_END)
	}
	value(t.M, unix.NFTA_SET_ELEM_KEY, []byte(e.Key))
	if e.End != "" {
		value(t.M, setElemKeyEnd, []byte(e.End))
	}
	if whole && e.Jump != "" {
		verdict(t.M, unix.NFTA_SET_ELEM_DATA, Jump, e.Jump)
	}
	t.M.End(at)
}
