package managedfields

import (
	"slices"
	"sync"
)

// node is one path element of a set of paths, with what is below it. Nodes side by side are in
// the order of their keys.
type node struct {
	key      string
	is       mark
	children []node
}

// mark tells what a node stands for. In a set, a path is owned or only leads to others; in the
// difference between two objects, owned is what was set and removed is what went away.
type mark uint8

const (
	owned mark = 1 << iota
	removed
)

// arena is where the trees of one operation live.
type arena struct {
	slab  []node
	used  int
	stack []node // nodes of lists that are not complete
	text  []byte // what is being encoded
	steps int    // how much was looked at, for tests of how the work grows
}

const slabNodes = 512

//nolint:gochecknoglobals // memory to use again, which holds nothing
var arenas = sync.Pool{New: func() any { return &arena{slab: make([]node, slabNodes)} }}

// release gives the arena back. Nothing made in it may be used after. What it still refers to is
// let go with the pool, at the next garbage collections.
func (a *arena) release() {
	a.used, a.stack, a.text, a.steps = 0, a.stack[:0], a.text[:0], 0
	if cap(a.stack) > slabNodes || cap(a.text) > 1<<16 || len(a.slab) > slabNodes {
		return // an unusually large object's
	}
	arenas.Put(a)
}

func (a *arena) push(n node) { a.stack = append(a.stack, n) }

// take removes the nodes from mark on from the stack and returns them as a list of their own.
func (a *arena) take(mark int) []node {
	nodes := a.stack[mark:]
	if len(nodes) == 0 {
		return nil
	}
	if a.used+len(nodes) > len(a.slab) {
		a.slab = make([]node, max(slabNodes, len(nodes)))
		a.used = 0
	}
	kept := a.slab[a.used : a.used+len(nodes) : a.used+len(nodes)]
	a.used += copy(kept, nodes)
	a.stack = a.stack[:mark]
	return kept
}

// find returns the node with the key, or nil. Callers look for keys in order, so that from,
// where the search goes on, only grows. It goes on in leaps: many small sets are held against one
// large one.
func (a *arena) find(nodes []node, from *int, key string) *node {
	for leap := 1; *from < len(nodes); leap *= 2 {
		a.steps++
		n := &nodes[*from]
		switch order := compareKeys(n.key, key); {
		case order == 0:
			return n
		case order > 0:
			return nil
		}
		next := *from + leap
		if next >= len(nodes) || compareKeys(nodes[next].key, key) > 0 {
			between := nodes[*from+1 : min(next, len(nodes))]
			i, found := slices.BinarySearchFunc(between, key, func(n node, key string) int { return compareKeys(n.key, key) })
			*from += 1 + i
			if !found {
				return nil
			}
			return &between[i]
		}
		*from = next
	}
	return nil
}

// subtract removes from a set the paths that a difference marks, whether set or removed. It
// returns the same list when there are none.
func (a *arena) subtract(set, diff []node) []node {
	start, same, at := len(a.stack), true, 0
	a.steps += len(set)
	for _, n := range set {
		if d := a.find(diff, &at, n.key); d != nil {
			children := a.subtract(n.children, d.children)
			is := n.is
			if d.is != 0 {
				is = 0
			}
			if is != n.is || !identical(children, n.children) {
				same = false
			}
			n.is, n.children = is, children
			if is == 0 && len(children) == 0 {
				continue
			}
		}
		a.push(n)
	}
	if same {
		a.stack = a.stack[:start]
		return set
	}
	return a.take(start)
}

func identical(a, b []node) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// union returns the paths of both sets. It returns x when that has all of y.
func (a *arena) union(x, y []node) []node {
	start, same, i, j := len(a.stack), true, 0, 0
	a.steps += len(x) + len(y)
	for i < len(x) || j < len(y) {
		order := 1 // x is at its end
		if j == len(y) {
			order = -1
		} else if i < len(x) {
			order = compareKeys(x[i].key, y[j].key)
		}
		switch {
		case order < 0:
			a.push(x[i])
			i++
		case order > 0:
			a.push(y[j])
			same = false
			j++
		default:
			children := a.union(x[i].children, y[j].children)
			both := node{key: x[i].key, is: x[i].is | y[j].is, children: children}
			if both.is != x[i].is || !identical(children, x[i].children) {
				same = false
			}
			a.push(both)
			i, j = i+1, j+1
		}
	}
	if same {
		a.stack = a.stack[:start]
		return x
	}
	return a.take(start)
}

// unionAll is the union of many sets. Each path is looked at once for each doubling of their number.
func (a *arena) unionAll(sets [][]node) []node {
	switch len(sets) {
	case 0:
		return nil
	case 1:
		return sets[0]
	}
	half := len(sets) / 2
	return a.union(a.unionAll(sets[:half]), a.unionAll(sets[half:]))
}

// set returns the set of the paths that a difference marks as set: the same list when nothing
// was removed.
func (a *arena) set(diff []node) []node {
	if !anyRemoved(diff) {
		return diff
	}
	start := len(a.stack)
	for _, n := range diff {
		n.children = a.set(n.children)
		if n.is &= owned; n.is != 0 || len(n.children) > 0 {
			a.push(n)
		}
	}
	return a.take(start)
}

func anyRemoved(diff []node) bool {
	return slices.ContainsFunc(diff, func(n node) bool { return n.is&removed != 0 || anyRemoved(n.children) })
}

// encode appends the set as FieldsV1.
func encode(b []byte, set []node, self bool) []byte {
	b = append(b, '{')
	if self && len(set) > 0 {
		b = append(b, `".":{},`...)
	}
	for i, n := range set {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '"')
		b = append(b, n.key...)
		b = append(b, `":`...)
		if len(n.children) == 0 {
			b = append(b, "{}"...)
			continue
		}
		b = encode(b, n.children, n.is != 0)
	}
	return append(b, '}')
}
