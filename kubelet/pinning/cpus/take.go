package cpus

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/utils/cpuset"
)

// picker takes CPUs until it has as many as are needed.
type picker struct {
	machine Topology
	free    Topology
	need    int
	taken   []int
}

func (t Topology) picker(free cpuset.CPUSet, count int) (*picker, error) {
	p := &picker{machine: t, free: t.only(free), need: count}
	if count > len(p.free) {
		return nil, fmt.Errorf("not enough cpus available to satisfy request: requested=%d, available=%d", count, free.Size())
	}
	return p, nil
}

func (p *picker) take(set cpuset.CPUSet) {
	for _, id := range set.UnsortedList() {
		if _, ok := p.free[id]; ok {
			delete(p.free, id)
			p.taken = append(p.taken, id)
			p.need--
		}
	}
}

// outer are the two levels above the cores: the larger one first. They are of one size on most machines.
func (p *picker) outer() (first, second level) {
	if len(p.machine.sizes(socket)) >= len(p.machine.sizes(node)) {
		return node, socket
	}
	return socket, node
}

// nodes are the NUMA nodes with free CPUs, in the order of preference.
func (p *picker) nodes() []int {
	if first, second := p.outer(); len(p.machine.sizes(socket)) < len(p.machine.sizes(node)) {
		return p.free.order(first, second)
	}
	return p.free.order(node)
}

// whole takes whole units of a level, in the order of levels, whose CPUs are all free and needed. A unit is whole with that many
// CPUs; 0 is as many as it has.
func (p *picker) whole(size int, levels ...level) {
	l := levels[len(levels)-1]
	free, all := p.free.sizes(l), p.machine.sizes(l)
	for _, unit := range p.free.order(levels...) {
		whole := size
		if whole == 0 {
			whole = all[unit]
		}
		if free[unit] == whole && p.need >= all[unit] {
			p.take(p.machine.where(func(c CPU) bool { return l(c) == unit }))
		}
	}
}

// takePacked takes CPUs that are as close together as possible: whole sockets and NUMA nodes, whole cores, and then those of cores
// that are used already. With caches it takes them, before cores, from as few uncore caches as possible.
func (t Topology) takePacked(free cpuset.CPUSet, count int, caches bool) (cpuset.CPUSet, error) {
	p, err := t.picker(free, count)
	if err != nil {
		return cpuset.New(), err
	}
	first, second := p.outer()
	levels := []level{first, second}
	if len(t.sizes(socket)) >= len(t.sizes(node)) {
		p.whole(0, node)
		p.whole(t.per(socket), node, socket)
	} else {
		p.whole(t.per(socket), socket)
		p.whole(0, socket, node)
	}
	if caches {
		p.byCache()
	}
	if p.need > 0 {
		p.whole(t.PerCore(), append(levels, core)...)
	}
	for _, c := range p.free.order(append(levels, core)...) {
		if p.need <= 0 {
			break
		}
		list := p.free.where(func(cpu CPU) bool { return cpu.Core == c }).List()
		p.take(cpuset.New(list[:min(len(list), p.need)]...))
	}
	if p.need > 0 {
		return cpuset.New(), errors.New("failed to allocate cpus")
	}
	return cpuset.New(p.taken...), nil
}

// cacheOrder are the uncore caches with free CPUs, by their NUMA nodes.
func (p *picker) cacheOrder() []int {
	var out []int
	for _, n := range p.nodes() {
		in := p.free.where(func(c CPU) bool { return c.Node == n })
		sizes, units := p.free.sizes(cache), p.free.only(in).sizes(cache)
		var list []int
		for u := range units {
			list = append(list, u)
		}
		slices.SortFunc(list, func(a, b int) int {
			if sizes[a] != sizes[b] {
				return sizes[a] - sizes[b]
			}
			return a - b
		})
		out = append(out, list...)
	}
	return out
}

// byCache takes whole uncore caches, and then what fits into a part of one.
func (p *picker) byCache() {
	for _, unit := range p.cacheOrder() {
		if p.need >= p.machine.per(cache) {
			free, all := p.free.sizes(cache), p.machine.sizes(cache)
			for _, u := range p.cacheOrder() {
				if free[u] == all[u] && p.need >= all[u] {
					p.take(p.machine.where(func(c CPU) bool { return c.Cache == u }))
				}
			}
		}
		if p.need <= 0 {
			return
		}
		p.partOf(unit)
		if p.need <= 0 {
			return
		}
	}
}

// partOf takes all that is needed from the first cores of an uncore cache, if it has that much.
func (p *picker) partOf(unit int) {
	perCore := p.machine.PerCore()
	inCache := p.free.only(p.free.where(func(c CPU) bool { return c.Cache == unit }))
	var cores []int
	for c := range inCache.sizes(core) {
		cores = append(cores, c)
	}
	slices.Sort(cores)
	cores = cores[:min(len(cores), (p.need+perCore-1)/perCore)]
	list := p.free.where(func(c CPU) bool { return slices.Contains(cores, c.Core) }).List()
	if p.need%2 != 0 && perCore > 1 && len(list) > p.need {
		list = list[:len(list)-1] // half of the last core
	}
	if len(list) == p.need {
		p.take(cpuset.New(list...))
	}
}
