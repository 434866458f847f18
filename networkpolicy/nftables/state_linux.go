package nftables

import (
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"github.com/keelson-dev/keelson/internal/nft"
	"github.com/keelson-dev/keelson/networkpolicy"
)

// state is what the kernel has. Pods that the same policies isolate share a chain, a group's; chains share sets.
type state struct {
	tables networkpolicy.Tables
	groups map[groupKey]*group
	sets   map[setKey]*set
	next   int // numbers chains and sets
}

// groupKey are the policies of a group, in one direction and family.
type groupKey struct {
	direction direction
	family    family
	names     string
}

type group struct {
	policies []networkpolicy.Name
	chain    string
	uses     int // by addresses
	written  bool
	sets     []setKey // that its rules refer to
}

type set struct {
	name    string
	uses    int // by rules
	written bool
}

func newState() *state {
	return &state{tables: networkpolicy.Tables{}, groups: map[groupKey]*group{}, sets: map[setKey]*set{}}
}

// edit is what a transaction does to the table, in the order of its fields.
type edit struct {
	newSets   []nft.Set
	newChains []string
	flushed   []string
	rules     []chainRule
	gone      map[string][]nft.Element // elements by set
	come      map[string][]nft.Element
	oldChains []string
	oldSets   []string
}

type chainRule struct {
	chain string
	rule  nft.Rule
}

func (e *edit) apply(t *nft.Transaction) {
	for _, s := range e.newSets {
		t.AddSet(s)
	}
	for _, c := range e.newChains {
		t.AddChain(c)
	}
	for _, c := range e.flushed {
		t.FlushChain(c)
	}
	for _, r := range e.rules {
		t.AddRule(r.chain, r.rule)
	}
	// A value is changed by deleting the element and adding it.
	for _, s := range slices.Sorted(maps.Keys(e.gone)) {
		t.DeleteElements(s, e.gone[s])
	}
	for _, s := range slices.Sorted(maps.Keys(e.come)) {
		t.AddElements(s, e.come[s])
	}
	for _, c := range e.oldChains {
		t.DeleteChain(c)
	}
	for _, s := range e.oldSets {
		t.DeleteSet(s)
	}
}

func (e *edit) empty() bool { return !e.structural() && len(e.gone)+len(e.come) == 0 }

// structural reports whether it does more than to change elements.
func (e *edit) structural() bool {
	return len(e.newSets)+len(e.newChains)+len(e.flushed)+len(e.rules)+len(e.oldChains)+len(e.oldSets) > 0
}

// onlyMembers returns the sets that the edit changes, if that is all it does and nothing counts references to what is in
// them.
func (e *edit) onlyMembers() (sets []string, ok bool) {
	if e.structural() {
		return nil, false
	}
	for _, elements := range []map[string][]nft.Element{e.gone, e.come} {
		for set := range elements {
			sets = append(sets, set)
		}
	}
	for f := range families {
		for d := range directions {
			if slices.Contains(sets, isolated(d, f)) {
				return nil, false
			}
		}
	}
	return sets, true
}

// update changes the state and returns what that does to the table.
func (s *state) update(c networkpolicy.Changes) *edit {
	e := &edit{gone: map[string][]nft.Element{}, come: map[string][]nft.Element{}}
	was := s.values(c)
	s.tables.Apply(c)
	for _, a := range slices.SortedFunc(maps.Keys(c.Pods), netip.Addr.Compare) {
		s.isolate(e, a, was.Pods[a], s.tables.Pods[a])
	}
	changed := map[networkpolicy.Name]bool{}
	for n := range c.Policies {
		changed[n] = !reflect.DeepEqual(was.Policies[n], s.tables.Policies[n])
	}
	for _, k := range sortedGroups(s.groups) {
		g := s.groups[k]
		if g.uses > 0 && g.written && !slices.ContainsFunc(g.policies, func(n networkpolicy.Name) bool { return changed[n] }) {
			continue
		}
		s.rewrite(e, k, g)
	}
	s.settle(e)
	for selection, now := range c.Selections {
		gone, come := difference(was.Selections[selection], now, netip.Addr.Compare)
		for f := range families {
			k := setKey{sort: members, family: f, selection: selection}
			s.replace(e, k, k.members(gone), k.members(come))
		}
	}
	for port, now := range c.Ports {
		gone, come := difference(was.Ports[port], now, netip.AddrPort.Compare)
		for f := range families {
			k := setKey{sort: named, family: f, port: port}
			s.replace(e, k, k.named(gone), k.named(come))
		}
	}
	s.create(e)
	return e
}

// values are those that the changes will replace.
func (s *state) values(c networkpolicy.Changes) networkpolicy.Tables {
	return networkpolicy.Tables{
		Pods: valuesOf(s.tables.Pods, c.Pods), Policies: valuesOf(s.tables.Policies, c.Policies),
		Selections: valuesOf(s.tables.Selections, c.Selections), Ports: valuesOf(s.tables.Ports, c.Ports),
	}
}

func valuesOf[K comparable, V, W any](all map[K]V, keys map[K]W) map[K]V {
	some := make(map[K]V, len(keys))
	for k := range keys {
		if v, ok := all[k]; ok {
			some[k] = v
		}
	}
	return some
}

func sortedGroups(all map[groupKey]*group) []groupKey {
	return slices.SortedFunc(maps.Keys(all), func(a, b groupKey) int {
		if d := int(a.direction - b.direction); d != 0 {
			return d
		}
		if d := int(a.family - b.family); d != 0 {
			return d
		}
		return strings.Compare(a.names, b.names)
	})
}

// isolate leads an address to other groups.
func (s *state) isolate(e *edit, a netip.Addr, was, is networkpolicy.Isolation) {
	f, key := familyOf(a), string(a.AsSlice())
	for d := range directions {
		from, to := s.group(d, f, d.isolating(was)), s.group(d, f, d.isolating(is))
		if from == to {
			continue
		}
		if from != nil {
			from.uses--
			e.gone[isolated(d, f)] = append(e.gone[isolated(d, f)], nft.Element{Key: key})
		}
		if to != nil {
			to.uses++
			e.come[isolated(d, f)] = append(e.come[isolated(d, f)], nft.Element{Key: key, Jump: to.chain})
		}
	}
	had, has := len(was.Ingress)+len(was.Egress) > 0, len(is.Ingress)+len(is.Egress) > 0
	self := nft.Element{Key: key + key}
	if had && !has {
		e.gone[selves(f)] = append(e.gone[selves(f)], self)
	}
	if has && !had {
		e.come[selves(f)] = append(e.come[selves(f)], self)
	}
}

// group is that of the policies, nil for none.
func (s *state) group(d direction, f family, policies []networkpolicy.Name) *group {
	if len(policies) == 0 {
		return nil
	}
	var names strings.Builder
	for _, n := range policies {
		names.WriteString(n.String() + "\n")
	}
	k := groupKey{d, f, names.String()}
	g, ok := s.groups[k]
	if !ok {
		s.next++
		g = &group{policies: policies, chain: fmt.Sprintf("%s%s-%d", d, f.suffix(), s.next)}
		s.groups[k] = g
	}
	return g
}

// rewrite writes the chain of a group, again or for the first time, or deletes it if no address leads there.
func (s *state) rewrite(e *edit, k groupKey, g *group) {
	for _, old := range g.sets {
		s.sets[old].uses--
	}
	g.sets = nil
	switch {
	case g.uses == 0 && g.written:
		e.oldChains = append(e.oldChains, g.chain)
		fallthrough
	case g.uses == 0:
		delete(s.groups, k)
		return
	case g.written:
		e.flushed = append(e.flushed, g.chain)
	default:
		e.newChains = append(e.newChains, g.chain)
	}
	g.written = true
	add := func(r nft.Rule) { e.rules = append(e.rules, chainRule{g.chain, r}) }
	for _, n := range g.policies {
		p := s.tables.Policies[n]
		for i, r := range k.direction.rules(&p) {
			for _, line := range lines(&r, k.family) {
				var match []nft.Expression
				for _, key := range line {
					match = append(append(match, key.load(k.direction.peer(k.family))...), nft.In(s.use(key), 0))
					g.sets = append(g.sets, key)
				}
				add(nft.Rule{Expressions: append(match, nft.Verdict(nft.Return, "")), Comment: fmt.Sprintf("%s, %s[%d]", n, k.direction, i)})
			}
		}
	}
	add(nft.Rule{Expressions: []nft.Expression{nft.Verdict(nft.Drop, "")}})
}

// use counts a reference to a set and returns the set's name.
func (s *state) use(k setKey) string {
	one, ok := s.sets[k]
	if !ok {
		s.next++
		suffix := k.family.suffix()
		if k.sort == ports {
			suffix = ""
		}
		one = &set{name: fmt.Sprintf("%s%s-%d", k.sort, suffix, s.next)}
		s.sets[k] = one
	}
	one.uses++
	return one.name
}

// settle deletes the sets that nothing refers to any longer.
func (s *state) settle(e *edit) {
	for k, one := range s.sets {
		if one.uses == 0 {
			if one.written {
				e.oldSets = append(e.oldSets, one.name)
			}
			delete(s.sets, k)
		}
	}
	slices.Sort(e.oldSets)
}

// replace changes the elements of a set that the table has.
func (s *state) replace(e *edit, k setKey, gone, come []nft.Element) {
	one, ok := s.sets[k]
	if !ok || !one.written {
		return
	}
	if len(gone) > 0 {
		e.gone[one.name] = gone
	}
	if len(come) > 0 {
		e.come[one.name] = come
	}
}

// difference is what one of two sorted slices has and the other has not.
func difference[T any](was, is []T, compare func(T, T) int) (gone, come []T) {
	for len(was) > 0 && len(is) > 0 {
		switch order := compare(was[0], is[0]); {
		case order < 0:
			gone, was = append(gone, was[0]), was[1:]
		case order > 0:
			come, is = append(come, is[0]), is[1:]
		default:
			was, is = was[1:], is[1:]
		}
	}
	return append(gone, was...), append(come, is...)
}

// create adds the sets that are new, with all their elements.
func (s *state) create(e *edit) {
	for k, one := range s.sets {
		if one.written {
			continue
		}
		one.written = true
		e.newSets = append(e.newSets, k.set(one.name))
		if all := k.elements(&s.tables); len(all) > 0 {
			e.come[one.name] = all
		}
	}
	slices.SortFunc(e.newSets, func(a, b nft.Set) int { return strings.Compare(a.Name, b.Name) })
}
