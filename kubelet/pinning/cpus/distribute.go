package cpus

import (
	"maps"
	"math"
	"slices"

	"k8s.io/utils/cpuset"
)

// takeDistributed takes as many CPUs from each of as few NUMA nodes as possible, in groups of a size.
func (t Topology) takeDistributed(free cpuset.CPUSet, count, group int) (cpuset.CPUSet, error) {
	if count%group != 0 {
		return t.takePacked(free, count, false)
	}
	p, err := t.picker(free, count)
	if err != nil || count == 0 {
		return cpuset.New(), err
	}
	nodes := p.nodes()
	groups := (len(t)-1)/group + 1
	perNode := (groups-1)/len(t.sizes(node)) + 1
	needed := count / group
	for size := (needed-1)/perNode + 1; size <= min(needed, len(nodes)); size++ {
		if s := p.split(nodes, size, group); s != nil {
			return s.take(p)
		}
	}
	return t.takePacked(free, count, false)
}

// split is how CPUs are taken from several NUMA nodes: from each of them as many, and the rest, group by group, from some.
type split struct {
	from, rest []int // NUMA nodes
	each       int
	group      int
	imbalance  float64 // of what is left on all nodes
}

// split returns the best way to take all that is needed from so many of the nodes; nil if there is none. Upstream overwrites
// combinations of four nodes or more after it has chosen one, and then takes CPUs from nodes that balance less well.
func (p *picker) split(nodes []int, size, group int) *split {
	var best *split
	free := p.free.sizes(node)
	for _, from := range combinations(nodes, size) {
		if best != nil && best.imbalance == 0 {
			break
		}
		s := &split{from: from, each: p.need / size / group * group, group: group}
		groups, enough := 0, true
		for _, n := range from {
			groups += free[n] / group
			enough = enough && free[n] >= s.each
		}
		if groups*group < p.need || !enough {
			continue
		}
		if s.spread(free, p.need) && (best == nil || s.imbalance < best.imbalance) {
			best = s
		}
	}
	return best
}

// spread chooses the nodes from which the rest is taken, so that what is left on all nodes is balanced.
func (s *split) spread(free map[int]int, need int) (possible bool) {
	left := maps.Clone(free)
	for _, n := range s.from {
		left[n] -= s.each
	}
	rest := need - s.each*len(s.from)
	s.imbalance = math.MaxFloat64
	if rest == 0 {
		s.imbalance = deviation(left)
		return true
	}
	var with []int
	for _, n := range s.from {
		if left[n] >= s.group {
			with = append(with, n)
		}
	}
	for size := len(with); size >= 1; size-- {
		for _, some := range combinations(with, size) {
			after, ok := less(left, some, rest, s.group)
			if !ok {
				continue
			}
			if d := deviation(after); d < s.imbalance {
				s.imbalance, s.rest = d, some
			}
		}
	}
	return s.rest != nil
}

// less returns what is left on the nodes after a rest is taken from some of them in turn.
func less(left map[int]int, some []int, rest, group int) (map[int]int, bool) {
	after := maps.Clone(left)
	for rest > 0 {
		before := rest
		for _, n := range some {
			if rest > 0 && after[n] >= group {
				after[n] -= group
				rest -= group
			}
		}
		if rest == before {
			return nil, false
		}
	}
	return after, true
}

// take takes the CPUs.
func (s *split) take(p *picker) (cpuset.CPUSet, error) {
	from := func(n, count int) error {
		set, err := p.machine.takePacked(p.free.where(func(c CPU) bool { return c.Node == n }), count, false)
		p.take(set)
		return err
	}
	for _, n := range s.from {
		if err := from(n, s.each); err != nil {
			return cpuset.New(), err
		}
	}
	for p.need > 0 {
		for _, n := range s.rest {
			if p.need > 0 && p.free.sizes(node)[n] >= s.group {
				if err := from(n, s.group); err != nil {
					return cpuset.New(), err
				}
			}
		}
	}
	return cpuset.New(p.taken...), nil
}

// deviation is the standard deviation of the values, like the mean to three digits.
func deviation(of map[int]int) float64 {
	round := func(x float64) float64 { return math.Round(x*1000) / 1000 }
	sum := 0
	for _, n := range of {
		sum += n
	}
	mean := round(float64(sum) / float64(len(of)))
	squares := 0.0
	for _, id := range slices.Sorted(maps.Keys(of)) {
		d := float64(of[id]) - mean
		squares += d * d
	}
	return round(math.Sqrt(squares / float64(len(of))))
}

// combinations returns all ways to choose so many elements, in their order.
func combinations(of []int, size int) [][]int {
	if size == 0 {
		return [][]int{nil}
	}
	var all [][]int
	for i := 0; i+size <= len(of); i++ {
		for _, rest := range combinations(of[i+1:], size-1) {
			all = append(all, append([]int{of[i]}, rest...))
		}
	}
	return all
}
