package ordered

import "slices"

// most is the maximum number of values of a leaf, and of children of an inner node.
const most = 64

// Order defines the order of values.
type Order[K, V any] struct {
	Key     func(V) K
	Compare func(a, b K) int
}

// Tree is a sorted set; make one with New.
type Tree[K, V any] struct {
	order Order[K, V]
	root  *node[K, V]
	owner *owner
}

// owner marks the nodes that only one tree uses, and may change in place.
type owner struct{ _ byte }

// node is a leaf with values, or an inner node with children. low of each child but the first is at most the
// first key under it, and greater than every key under the child before.
type node[K, V any] struct {
	owner    *owner
	values   []V
	children []*node[K, V]
	lows     []K
	size     int // values below
}

// New returns an empty tree.
func New[K, V any](order Order[K, V]) *Tree[K, V] {
	t := &Tree[K, V]{order: order, owner: &owner{}}
	t.root = &node[K, V]{owner: t.owner}
	return t
}

// Clone returns a tree with the same values. It costs nothing; later writes to either tree copy the nodes they
// change.
func (t *Tree[K, V]) Clone() *Tree[K, V] {
	c := *t
	t.owner, c.owner = &owner{}, &owner{}
	return &c
}

// Len returns the number of values.
func (t *Tree[K, V]) Len() int { return t.root.size }

// Get returns the value at a key.
func (t *Tree[K, V]) Get(key K) (v V, ok bool) {
	n := t.root
	for n.children != nil {
		n = n.children[t.child(n, key)]
	}
	at, found := t.find(n, key)
	if !found {
		return v, false
	}
	return n.values[at], true
}

// Rank returns how many values have smaller keys.
func (t *Tree[K, V]) Rank(key K) int {
	n, rank := t.root, 0
	for n.children != nil {
		at := t.child(n, key)
		for _, before := range n.children[:at] {
			rank += before.size
		}
		n = n.children[at]
	}
	at, _ := t.find(n, key)
	return rank + at
}

// Ascend calls visit in order for the values from key from on, until visit returns false.
func (t *Tree[K, V]) Ascend(from K, visit func(V) bool) { t.ascend(t.root, &from, visit) }

// All calls visit in order for all values, until visit returns false.
func (t *Tree[K, V]) All(visit func(V) bool) { t.ascend(t.root, nil, visit) }

func (t *Tree[K, V]) ascend(n *node[K, V], from *K, visit func(V) bool) bool {
	if n.children == nil {
		at := 0
		if from != nil {
			at, _ = t.find(n, *from)
		}
		for _, v := range n.values[at:] {
			if !visit(v) {
				return false
			}
		}
		return true
	}
	at := 0
	if from != nil {
		at = t.child(n, *from)
	}
	for i, c := range n.children[at:] {
		if i > 0 {
			from = nil
		}
		if !t.ascend(c, from, visit) {
			return false
		}
	}
	return true
}

// Put adds a value, and returns the value with the same key that it replaced.
func (t *Tree[K, V]) Put(v V) (replaced V, ok bool) {
	root := t.mine(t.root)
	t.root = root
	replaced, ok = t.put(root, t.order.Key(v), v)
	if low, right := t.split(root); right != nil {
		t.root = &node[K, V]{
			owner: t.owner, size: root.size + right.size,
			children: append(make([]*node[K, V], 0, 4), root, right),
			lows:     append(make([]K, 1, 4), low),
		}
	}
	return replaced, ok
}

func (t *Tree[K, V]) put(n *node[K, V], key K, v V) (replaced V, ok bool) {
	if n.children == nil {
		at, found := t.find(n, key)
		if found {
			replaced, n.values[at] = n.values[at], v
			return replaced, true
		}
		n.values = slices.Insert(n.values, at, v)
		n.size++
		return replaced, false
	}
	at := t.child(n, key)
	c := t.mine(n.children[at])
	n.children[at] = c
	replaced, ok = t.put(c, key, v)
	if !ok {
		n.size++
	}
	if low, right := t.split(c); right != nil {
		n.children = slices.Insert(n.children, at+1, right)
		n.lows = slices.Insert(n.lows, at+1, low)
	}
	return replaced, ok
}

// split splits a node that is too wide. low is the lower bound of the right one.
func (t *Tree[K, V]) split(n *node[K, V]) (low K, right *node[K, V]) {
	switch {
	case len(n.values) > most:
		half := len(n.values) / 2
		right = &node[K, V]{owner: t.owner, values: slices.Clone(n.values[half:]), size: len(n.values) - half}
		clear(n.values[half:])
		n.values, n.size = n.values[:half], half
		return t.order.Key(right.values[0]), right
	case len(n.children) > most:
		half := len(n.children) / 2
		right = &node[K, V]{owner: t.owner, children: slices.Clone(n.children[half:]), lows: slices.Clone(n.lows[half:])}
		for _, c := range right.children {
			right.size += c.size
		}
		clear(n.children[half:])
		clear(n.lows[half:])
		n.children, n.lows = n.children[:half], n.lows[:half]
		n.size -= right.size
		return right.lows[0], right
	}
	return low, nil
}

// Delete removes the value at a key and returns it.
func (t *Tree[K, V]) Delete(key K) (removed V, ok bool) {
	if _, there := t.Get(key); !there {
		return removed, false
	}
	t.root = t.mine(t.root)
	removed = t.remove(t.root, key)
	for len(t.root.children) == 1 {
		t.root = t.root.children[0]
	}
	if t.root.size == 0 {
		t.root = &node[K, V]{owner: t.owner}
	}
	return removed, true
}

// remove removes the value at an existing key.
func (t *Tree[K, V]) remove(n *node[K, V], key K) (removed V) {
	n.size--
	if n.children == nil {
		at, _ := t.find(n, key)
		removed = n.values[at]
		n.values = slices.Delete(n.values, at, at+1)
		return removed
	}
	at := t.child(n, key)
	c := t.mine(n.children[at])
	n.children[at] = c
	removed = t.remove(c, key)
	switch {
	case c.size == 0:
		n.children = slices.Delete(n.children, at, at+1)
		n.lows = slices.Delete(n.lows, at, at+1)
	case c.width() < most/4 && at > 0:
		t.merge(n, at-1)
	case c.width() < most/4 && at+1 < len(n.children):
		t.merge(n, at)
	}
	return removed
}

// merge merges two small neighbours.
func (t *Tree[K, V]) merge(n *node[K, V], at int) {
	right := n.children[at+1]
	if n.children[at].width()+right.width() > most*3/4 {
		return
	}
	left := t.mine(n.children[at])
	n.children[at] = left
	left.values = append(left.values, right.values...)
	left.children = append(left.children, right.children...)
	if right.children != nil {
		from := len(left.lows)
		left.lows = append(left.lows, right.lows...)
		left.lows[from] = n.lows[at+1]
	}
	left.size += right.size
	n.children = slices.Delete(n.children, at+1, at+2)
	n.lows = slices.Delete(n.lows, at+1, at+2)
}

func (n *node[K, V]) width() int { return len(n.values) + len(n.children) }

// mine returns the node, or a copy of it that this tree may change.
func (t *Tree[K, V]) mine(n *node[K, V]) *node[K, V] {
	if n.owner == t.owner {
		return n
	}
	return &node[K, V]{
		owner: t.owner, size: n.size,
		values: slices.Clone(n.values), children: slices.Clone(n.children), lows: slices.Clone(n.lows),
	}
}

// child returns the index of the child for a key.
func (t *Tree[K, V]) child(n *node[K, V], key K) int {
	low, high := 1, len(n.children)
	for low < high {
		if middle := (low + high) / 2; t.order.Compare(n.lows[middle], key) <= 0 {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low - 1
}

// find returns the index of a key in a leaf, or the index at which to insert it.
func (t *Tree[K, V]) find(n *node[K, V], key K) (int, bool) {
	return slices.BinarySearchFunc(n.values, key, func(v V, key K) int { return t.order.Compare(t.order.Key(v), key) })
}
