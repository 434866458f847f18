package cpus_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"

	"github.com/keelson-dev/keelson/kubelet/pinning/cpus"
)

// place is where some CPUs are that follow one another.
type place struct{ count, core, cache, node, socket int }

func places(list ...place) cpus.Topology {
	t := cpus.Topology{}
	for _, p := range list {
		for range p.count {
			t[len(t)] = cpus.CPU{Core: p.core, Cache: p.cache, Node: p.node, Socket: p.socket}
		}
	}
	return t
}

// cores are the places of so many cores of one thread each.
func cores(count int, at place) []place {
	var list []place
	for i := range count {
		list = append(list, place{1, at.core + i, at.cache, at.node, at.socket})
	}
	return list
}

func join(lists ...[]place) cpus.Topology {
	var all []place
	for _, l := range lists {
		all = append(all, l...)
	}
	return places(all...)
}

// TestUnevenMachines: which CPUs a container gets where sockets, NUMA nodes, caches or cores are not alike, because some CPUs are
// offline, or where they are not numbered alike.
func TestUnevenMachines(t *testing.T) {
	crossed := join(cores(4, place{core: 0, node: 1, cache: 1}), cores(4, place{core: 4, socket: 1}), cores(4, place{core: 8, cache: 2, node: 2, socket: 2}))
	small := join(cores(6, place{}), cores(2, place{core: 6, cache: 1, node: 1, socket: 1}))
	caches := join(cores(6, place{}), cores(4, place{core: 6, cache: 1}), cores(2, place{core: 10, cache: 2}))
	for name, c := range map[string]struct {
		on       cpus.Topology
		taken    string
		count    string
		options  cpus.Options
		reserved string
		want     string
	}{
		"the first NUMA node of the second socket":    {crossed, "", "1", cpus.Options{}, "3,7,8", "4"},
		"the whole first NUMA node":                   {crossed, "", "4", cpus.Options{}, "8", "4-7"},
		"by the NUMA nodes of caches":                 {crossed, "0,4", "2", cpus.Options{ByCache: true}, "8", "5-6"},
		"across the first NUMA nodes":                 {crossed, "0,4", "4", cpus.Options{AcrossNodes: true}, "8", "1-2,5-6"},
		"across, but all are on the first":            {crossed, "0,4", "3", cpus.Options{AcrossNodes: true}, "8", "5-7"},
		"across, more than the average node has":      {small, "", "5", cpus.Options{AcrossNodes: true}, "0", "1-3,6-7"},
		"a smaller cache whole, and a part":           {join(cores(2, place{}), cores(4, place{core: 2, cache: 1})), "", "3", cpus.Options{ByCache: true}, "5", "0-2"},
		"a cache whole before a part of a larger one": {caches, "4-5,10", "4", cpus.Options{ByCache: true}, "11", "6-9"},
		"a core of one thread":                        {places(place{count: 2}, place{1, 1, 0, 0, 0}, place{1, 2, 0, 0, 0}), "", "1", cpus.Options{ByCache: true}, "3", "2"},
	} {
		p := policy(t, c.on, c.reserved, c.options)
		s, err := p.Restore(cpus.State{})
		if err != nil {
			t.Fatal(err)
		}
		taken := set(t, c.taken)
		s = cpus.State{Shared: s.Shared.Difference(taken), Own: map[types.UID]map[string]cpuset.CPUSet{"other": {"main": taken}}}
		main := sized("main", c.count)
		if s, err = p.Allocate(s, pod("a", nil, main), &main, 0); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got, _ := s.Of("a", "main"); got.String() != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestPerCore: how many threads a core has.
func TestPerCore(t *testing.T) {
	for want, on := range map[int]cpus.Topology{0: {}, 1: shape{1, 1, 4, 1}.topology(), 2: shape{2, 1, 4, 2}.topology(), 4: shape{1, 2, 2, 4}.topology()} {
		if got := on.PerCore(); got != want {
			t.Errorf("%d, want %d", got, want)
		}
	}
}

// TestReservedBy: the CPUs that are reserved are chosen as those of a container would be.
func TestReservedBy(t *testing.T) {
	on := shape{2, 1, 4, 2}.topology()
	for name, c := range map[string]struct {
		options cpus.Options
		amount  string
		want    string
	}{
		"packed":              {cpus.Options{}, "3", "0-1,8"},
		"across nodes":        {cpus.Options{AcrossNodes: true}, "10", "0-2,4-6,8-9,12-13"},
		"across, whole cores": {cpus.Options{AcrossNodes: true, FullCores: true}, "12", "0-2,4-6,8-10,12-14"},
		"not whole cores":     {cpus.Options{AcrossNodes: true, FullCores: true}, "3", "0-1,8"},
	} {
		p, err := cpus.New(on, cpuset.New(), resource.MustParse(c.amount), c.options)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Reserved().String(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
