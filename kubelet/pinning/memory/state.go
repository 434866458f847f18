package memory

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/kubelet/pinning/numa"
)

// State is what of the memory of a machine is given away. The zero value is that of a machine whose memory was never given away.
type State struct {
	// Nodes are the NUMA nodes, by number.
	Nodes map[int]Node
	// Own is what containers were given, by pod and name.
	Own map[types.UID]map[string][]Block
}

// Node is the memory of a NUMA node.
type Node struct {
	// Assignments counts the blocks on the node.
	Assignments int
	// Memory is that of each resource: memory and huge pages by size.
	Memory map[corev1.ResourceName]Table
	// Group are the nodes across which the blocks on the node lie; without any, the node itself.
	Group []int
}

// Table is one kind of memory of a node, in bytes.
type Table struct {
	// Total is all that there is, SystemReserved what the node keeps for itself.
	Total, SystemReserved uint64
	// Allocatable is what can be given away: Reserved is, Free is not.
	Allocatable, Reserved, Free uint64
}

// Block is memory of a container.
type Block struct {
	Nodes []int               // that it lies on
	Type  corev1.ResourceName // memory, or huge pages of a size
	// Size is in bytes. An init container's does not include what others of its pod use after it.
	Size uint64
}

// Clone returns a copy.
func (s State) Clone() State {
	out := State{Nodes: maps.Clone(s.Nodes), Own: make(map[types.UID]map[string][]Block, len(s.Own))}
	for id, n := range out.Nodes {
		n.Memory, n.Group = maps.Clone(n.Memory), slices.Clone(n.Group)
		out.Nodes[id] = n
	}
	for uid, pod := range s.Own {
		own := make(map[string][]Block, len(pod))
		for name, blocks := range pod {
			own[name] = slices.Clone(blocks)
		}
		out.Own[uid] = own
	}
	return out
}

// Of returns the NUMA nodes on which a container's memory is; none if it may be anywhere.
func (s State) Of(uid types.UID, container string) []int {
	var m numa.Mask
	for _, b := range s.Own[uid][container] {
		m |= numa.MaskOf(b.Nodes...)
	}
	return m.Nodes()
}

// ids are the numbers of the nodes.
func (s State) ids() []int { return slices.Sorted(maps.Keys(s.Nodes)) }

// Without returns the state without the pods for which live returns false, whose memory is free again.
func (s State) Without(live func(types.UID) bool) State {
	next := s.Clone()
	for uid, pod := range s.Own {
		if live(uid) {
			continue
		}
		for _, blocks := range pod {
			for _, b := range blocks {
				next.release(b)
			}
		}
		delete(next.Own, uid)
	}
	return next
}

// take notes that a block is on its nodes, and takes so much of their free memory.
func (s State) take(b Block, size uint64) {
	for _, id := range b.Nodes {
		n := s.Nodes[id]
		n.Assignments++
		n.Group = slices.Clone(b.Nodes)
		t := n.Memory[b.Type]
		part := min(size, t.Free)
		t.Reserved, t.Free, size = t.Reserved+part, t.Free-part, size-part
		n.Memory[b.Type] = t
		s.Nodes[id] = n
	}
}

func (s State) release(b Block) {
	size := b.Size
	for _, id := range b.Nodes {
		n, known := s.Nodes[id]
		if !known {
			continue
		}
		n.Assignments--
		if n.Assignments == 0 {
			n.Group = []int{id}
		}
		t := n.Memory[b.Type]
		part := min(size, t.Reserved)
		t.Reserved, t.Free, size = t.Reserved-part, t.Free+part, size-part
		n.Memory[b.Type] = t
		s.Nodes[id] = n
	}
}

// free is how much of a resource is free on some nodes.
func (s State) free(m numa.Mask, name corev1.ResourceName) (sum uint64) {
	for _, id := range m.Nodes() {
		sum += s.Nodes[id].Memory[name].Free
	}
	return sum
}

func (s State) allocatable(m numa.Mask, name corev1.ResourceName) (sum uint64) {
	for _, id := range m.Nodes() {
		sum += s.Nodes[id].Memory[name].Allocatable
	}
	return sum
}

// Restore checks a state that was written down earlier, and returns the one to go on with. The memory of the machine, and how much is
// reserved, may have changed in the meantime: then it fails.
func (p *Policy) Restore(s State) (State, error) {
	if len(s.Nodes) == 0 {
		if len(s.Own) > 0 {
			return s, errors.New("[memorymanager] machine state can not be empty when it has memory assignments")
		}
		return p.initial.Clone(), nil
	}
	want := p.initial.Clone()
	for uid, pod := range s.Own {
		for name, blocks := range pod {
			for _, b := range blocks {
				for _, id := range b.Nodes {
					n, known := want.Nodes[id]
					if !known {
						return s, fmt.Errorf("[memorymanager] (pod: %s, container: %s) the memory assignment uses the NUMA that does not exist", uid, name)
					}
					if _, known := n.Memory[b.Type]; !known {
						return s, fmt.Errorf("[memorymanager] (pod: %s, container: %s) the memory assignment uses memory resource that does not exist", uid, name)
					}
				}
				want.take(b, b.Size)
			}
		}
	}
	if !same(s.Nodes, want.Nodes) {
		return s, errors.New("[memorymanager] the expected machine state is different from the real one")
	}
	return s, nil
}

// same reports whether two states of the nodes agree: in what is given away, in the sum over the nodes of a group.
func same(a, b map[int]Node) bool {
	return maps.EqualFunc(a, b, func(a, b Node) bool {
		return a.Assignments == b.Assignments && sameNodes(a.Group, b.Group) && maps.EqualFunc(a.Memory, b.Memory, func(a, b Table) bool {
			return a.Total == b.Total && a.SystemReserved == b.SystemReserved && a.Allocatable == b.Allocatable
		})
	}) && sameSums(a, b)
}

func sameSums(a, b map[int]Node) bool {
	for _, n := range a {
		for name := range n.Memory {
			var one, two Table
			for _, id := range n.Group {
				x, y := a[id].Memory[name], b[id].Memory[name]
				one.Free, one.Reserved = one.Free+x.Free, one.Reserved+x.Reserved
				two.Free, two.Reserved = two.Free+y.Free, two.Reserved+y.Reserved
			}
			if one != two {
				return false
			}
		}
	}
	return true
}

func sameNodes(a, b []int) bool { return len(a) == len(b) && numa.MaskOf(a...) == numa.MaskOf(b...) }
