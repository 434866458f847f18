package cpus

import (
	"cmp"
	"slices"

	"k8s.io/utils/cpuset"

	"github.com/keelson-dev/keelson/kubelet/pinning/numa"
)

// CPU says where a CPU, which is a hardware thread, is. The numbers are those of the whole machine: no two sockets have cores
// of the same number.
type CPU struct {
	// Core, Socket and Node are the core, the socket and the NUMA node that it is a part of.
	Core, Socket, Node int
	// Cache is its last-level cache, the uncore cache.
	Cache int
}

// Topology is where the CPUs of a machine that are online are, by number.
type Topology map[int]CPU

// All is the set of all CPUs.
func (t Topology) All() cpuset.CPUSet { return t.where(func(CPU) bool { return true }) }

// PerCore is how many threads a core has.
func (t Topology) PerCore() int { return t.per(core) }

// per is the average number of CPUs in one unit of a level.
func (t Topology) per(l level) int {
	if len(t) == 0 {
		return 0
	}
	return len(t) / len(t.sizes(l))
}

// where returns the CPUs that are somewhere.
func (t Topology) where(in func(CPU) bool) cpuset.CPUSet {
	var list []int
	for id, c := range t {
		if in(c) {
			list = append(list, id)
		}
	}
	return cpuset.New(list...)
}

// onNodes returns the CPUs of some NUMA nodes.
func (t Topology) onNodes(m numa.Mask) cpuset.CPUSet {
	return t.where(func(c CPU) bool { return m.Has(c.Node) })
}

// only returns the part of the topology with some CPUs.
func (t Topology) only(set cpuset.CPUSet) Topology {
	out := make(Topology, set.Size())
	for _, id := range set.UnsortedList() {
		if c, ok := t[id]; ok {
			out[id] = c
		}
	}
	return out
}

// level is what CPUs are grouped by.
type level func(CPU) int

func core(c CPU) int   { return c.Core }
func socket(c CPU) int { return c.Socket }
func node(c CPU) int   { return c.Node }
func cache(c CPU) int  { return c.Cache }

// sizes returns the number of CPUs in each unit of a level.
func (t Topology) sizes(l level) map[int]int {
	sizes := map[int]int{}
	for _, c := range t {
		sizes[l(c)]++
	}
	return sizes
}

// order returns the units of the last level: by the number of CPUs of their unit of the first level, then of the second, and so on,
// fewest first, and of as many, by number.
func (t Topology) order(levels ...level) []int {
	last := levels[len(levels)-1]
	sizes := make([]map[int]int, len(levels))
	for i, l := range levels {
		sizes[i] = t.sizes(l)
	}
	places := slices.Collect(func(yield func(CPU) bool) {
		for _, c := range t {
			if !yield(c) {
				return
			}
		}
	})
	slices.SortFunc(places, func(a, b CPU) int {
		for i, l := range levels {
			if by := cmp.Or(cmp.Compare(sizes[i][l(a)], sizes[i][l(b)]), cmp.Compare(l(a), l(b))); by != 0 {
				return by
			}
		}
		return 0
	})
	var units []int
	for _, c := range places {
		if u := last(c); !slices.Contains(units, u) {
			units = append(units, u)
		}
	}
	return units
}
