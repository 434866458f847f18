package numa

import "math/bits"

// Mask is a set of NUMA nodes, whose numbers are below 64.
type Mask uint64

// MaxNode is the highest number of a node.
const MaxNode = 63

// MaskOf returns the set of some nodes. Numbers that cannot be in it are left out.
func MaskOf(nodes ...int) Mask {
	var m Mask
	for _, n := range nodes {
		if n >= 0 && n <= MaxNode {
			m |= 1 << n
		}
	}
	return m
}

// Has reports whether a node is in the set.
func (m Mask) Has(node int) bool { return m&MaskOf(node) != 0 }

// Len is the number of nodes.
func (m Mask) Len() int { return bits.OnesCount64(uint64(m)) }

// Nodes returns the nodes in ascending order.
func (m Mask) Nodes() []int {
	nodes := make([]int, 0, m.Len())
	for rest := uint64(m); rest != 0; rest &= rest - 1 {
		nodes = append(nodes, bits.TrailingZeros64(rest))
	}
	return nodes
}

// Narrower reports whether the set has fewer nodes than another or, of as many, lower ones.
func (m Mask) Narrower(than Mask) bool {
	if m.Len() == than.Len() {
		return m < than
	}
	return m.Len() < than.Len()
}

// Subsets returns all sets of some of the nodes, except the empty one: those with fewer nodes first, each size in
// lexical order.
func Subsets(nodes []int) []Mask {
	var all []Mask
	var extend func(rest []int, have Mask, missing int)
	extend = func(rest []int, have Mask, missing int) {
		if missing == 0 {
			all = append(all, have)
			return
		}
		for i, n := range rest {
			extend(rest[i+1:], have|MaskOf(n), missing-1)
		}
	}
	for size := range nodes {
		extend(nodes, 0, size+1)
	}
	return all
}
