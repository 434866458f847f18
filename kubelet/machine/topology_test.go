package machine_test

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"testing"

	"github.com/keelson-dev/keelson/kubelet/machine"
)

// threads are the files of processors: where each is, as its socket and its core there.
func threads(dir string, at map[int][2]int) map[string]string {
	files := map[string]string{}
	for id, place := range at {
		cpu := fmt.Sprintf("%s/cpu%d/", dir, id)
		files[cpu+"topology/physical_package_id"], files[cpu+"topology/core_id"] = fmt.Sprintln(place[0]), fmt.Sprintln(place[1])
	}
	return files
}

// TestTopology: where processors are, with NUMA nodes.
func TestTopology(t *testing.T) {
	const nodes = "sys/devices/system/node/"
	files := map[string]string{
		nodes + "node0/meminfo": "Node 0 MemTotal:  4000 kB\nNode 0 MemFree: 1 kB\n", nodes + "node1/meminfo": "Node 1 MemTotal: 2000 kB\n",
		nodes + "node0/distance": "10 21\n", nodes + "node1/distance": "21 10\n",
		nodes + "node1/hugepages/hugepages-2048kB/nr_hugepages": "3\n",
		nodes + "node0/cpulist":                                 "0-1,4-5\n",
		nodes + "node1/cpu7/online":                             "0\n",
	}
	maps.Copy(files, threads(nodes+"node0", map[int][2]int{0: {0, 0}, 1: {0, 1}, 4: {0, 0}, 5: {0, 1}}))
	maps.Copy(files, threads(nodes+"node1", map[int][2]int{2: {1, 0}, 3: {1, 1}, 6: {1, 0}, 7: {1, 1}}))
	cache := func(cpu, id int, shared string) {
		at := fmt.Sprintf("%snode%d/cpu%d/cache/index3/", nodes, cpu/2%2, cpu)
		files[at+"level"], files[at+"id"], files[at+"shared_cpu_list"] = "3\n", fmt.Sprintln(id), shared+"\n"
	}
	for _, id := range []int{0, 1, 4, 5} {
		cache(id, 8, "0-1,4-5") // the whole node's
	}
	cache(2, 9, "2,6")
	cache(6, 9, "2,6")
	cpus, found, err := root(t, files).Topology()
	if err != nil {
		t.Fatal(err)
	}
	want := []machine.CPU{
		{ID: 0, Core: 0}, {ID: 1, Core: 1}, {ID: 4, Core: 0}, {ID: 5, Core: 1},
		{ID: 2, Core: 2, Socket: 1, Node: 1, Cache: 9}, {ID: 3, Core: 3, Socket: 1, Node: 1, Cache: 1}, {ID: 6, Core: 2, Socket: 1, Node: 1, Cache: 9},
	}
	if !reflect.DeepEqual(cpus, want) {
		t.Errorf("%+v", cpus)
	}
	if want := []machine.NUMANode{
		{ID: 0, Memory: 4000 * 1024, Distances: []uint64{10, 21}},
		{ID: 1, Memory: 2000 * 1024, Distances: []uint64{21, 10}, Hugepages: map[uint64]uint64{2 << 20: 3 * 2 << 20}},
	}; !reflect.DeepEqual(found, want) {
		t.Errorf("%+v", found)
	}
}

// TestTopologyWithoutNUMA: all processors are on node 0, which has all memory.
func TestTopologyWithoutNUMA(t *testing.T) {
	files := small()
	maps.Copy(files, threads("sys/devices/system/cpu", map[int][2]int{0: {0, 0}, 1: {0, 1}}))
	cpus, nodes, err := root(t, files).Topology()
	if err != nil || !reflect.DeepEqual(cpus, []machine.CPU{{ID: 0, Core: 0}, {ID: 1, Core: 1}}) {
		t.Errorf("%+v, %v", cpus, err)
	}
	if want := []machine.NUMANode{{Memory: 8000 * 1024, Hugepages: map[uint64]uint64{2 << 20: 4 * 2 << 20}}}; !reflect.DeepEqual(nodes, want) {
		t.Errorf("%+v", nodes)
	}
	if _, _, err := root(t, small()).Topology(); !errors.Is(err, machine.ErrUnreadable) {
		t.Errorf("without processors: %v", err)
	}
}
