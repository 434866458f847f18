package machine

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// CPU is a processor, which is a hardware thread, that is online, and where it is. All numbers are those of the whole machine.
type CPU struct {
	// ID is its number in the kernel's lists.
	ID int
	// Core is the lowest ID among the threads of its core.
	Core, Socket, Node int
	// Cache is the last-level cache, unless it is that of the whole NUMA node; else the socket.
	Cache int
}

// NUMANode is a NUMA node with its own memory.
type NUMANode struct {
	// ID is its number in the kernel's lists.
	ID int
	// Memory is in bytes, Hugepages as in Machine.
	Memory    uint64
	Hugepages map[uint64]uint64
	// Distances are those to each node, by ID; nil if they are not known.
	Distances []uint64
}

// Topology returns the machine's processors and its NUMA nodes, each in the order of their IDs. A system that does not know of
// NUMA has one node, 0. It fails with ErrUnreadable if there are no processors.
func (r Reader) Topology() ([]CPU, []NUMANode, error) {
	const system = "sys/devices/system"
	ids := numbered(r.path(filepath.Join(system, "node")), "node")
	var nodes []NUMANode
	var all []CPU
	for _, id := range ids {
		dir := filepath.Join(system, "node", "node"+strconv.Itoa(id))
		node := NUMANode{ID: id, Hugepages: r.pagesIn(filepath.Join(dir, "hugepages"))}
		node.Memory, node.Distances = r.nodeMemory(dir), r.distances(dir)
		nodes = append(nodes, node)
		all = append(all, r.cpusIn(dir, id)...)
	}
	if len(ids) == 0 {
		nodes = []NUMANode{{Memory: r.meminfo()["MemTotal"], Hugepages: r.hugepages()}}
		all = r.cpusIn(filepath.Join(system, "cpu"), 0)
	}
	if len(all) == 0 {
		return nil, nil, fmt.Errorf("%w: no processors in %s", ErrUnreadable, r.path(system))
	}
	return all, nodes, nil
}

// numbered returns the numbers of the entries of a directory whose names start with a prefix.
func numbered(dir, prefix string) []int {
	entries, _ := os.ReadDir(dir)
	var ids []int
	for _, entry := range entries {
		rest, ok := strings.CutPrefix(entry.Name(), prefix)
		if id, err := strconv.Atoi(rest); ok && err == nil && id >= 0 {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func (r Reader) nodeMemory(dir string) uint64 {
	for line := range strings.Lines(r.text(filepath.Join(dir, "meminfo"))) {
		fields := strings.Fields(line) // Node 0 MemTotal: 16384 kB
		if len(fields) >= 4 && fields[2] == "MemTotal:" {
			kilobytes, _ := strconv.ParseUint(fields[3], 10, 64)
			return kilobytes * 1024
		}
	}
	return 0
}

func (r Reader) distances(dir string) []uint64 {
	var out []uint64
	for field := range strings.FieldsSeq(r.text(filepath.Join(dir, "distance"))) {
		d, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			return nil
		}
		out = append(out, d)
	}
	return out
}

// cpusIn returns the processors online with a link in a directory: all those of a node.
func (r Reader) cpusIn(dir string, node int) []CPU {
	type thread struct {
		CPU
		name [2]string // the core's, in its socket
	}
	var list []thread
	first := map[[2]string]int{}
	for _, id := range numbered(r.path(dir), "cpu") {
		at := filepath.Join(dir, "cpu"+strconv.Itoa(id))
		socket := r.text(filepath.Join(at, "topology/physical_package_id"))
		if r.text(filepath.Join(at, "online")) == "0" || socket == "" && r.text(filepath.Join(at, "topology/core_id")) == "" {
			continue
		}
		c := thread{CPU{ID: id, Node: node, Socket: int(max(0, number(socket)))}, [2]string{socket, r.text(filepath.Join(at, "topology/core_id"))}}
		if _, known := first[c.name]; !known {
			first[c.name] = id
		}
		list = append(list, c)
	}
	threads := map[[2]string]int{}
	for _, c := range list {
		threads[c.name]++
	}
	out := make([]CPU, 0, len(list))
	for _, c := range list {
		c.Core, c.Cache = first[c.name], c.Socket
		at := filepath.Join(dir, "cpu"+strconv.Itoa(c.ID), "cache")
		if id, shared, ok := r.lastCache(at); ok && shared != threads[c.name]*len(threads) {
			c.Cache = id
		}
		out = append(out, c.CPU)
	}
	return out
}

func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 32)
	return n
}

// lastCache returns the cache of a processor above the second level and by how many it is shared.
func (r Reader) lastCache(dir string) (id, shared int, ok bool) {
	for _, index := range numbered(r.path(dir), "index") {
		at := filepath.Join(dir, "index"+strconv.Itoa(index))
		if number(r.text(filepath.Join(at, "level"))) <= 2 {
			continue
		}
		id, err := strconv.Atoi(cmp.Or(r.text(filepath.Join(at, "id")), "?"))
		return id, cpuList(r.text(filepath.Join(at, "shared_cpu_list"))), err == nil
	}
	return 0, 0, false
}
