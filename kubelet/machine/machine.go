package machine

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Machine is the capacity of a machine.
type Machine struct {
	// CPUs is the number of processors online.
	CPUs int
	// Memory and Swap are in bytes.
	Memory, Swap uint64
	// Hugepages are the bytes set aside for huge pages, by the pages' size in bytes.
	Hugepages map[uint64]uint64
	// MaxProcesses is the maximum number of processes and threads.
	MaxProcesses uint64
	// Info holds the fields of the node's status about the machine and its system.
	Info corev1.NodeSystemInfo
}

// Reader reads a machine. The zero value reads this one.
type Reader struct {
	// Root is the root of the machine's file system; empty is /.
	Root string
}

func (r Reader) path(name string) string { return filepath.Join(cmp.Or(r.Root, "/"), name) }

// text returns the trimmed content of a file; empty if it cannot be read.
func (r Reader) text(name string) string {
	data, _ := os.ReadFile(r.path(name))
	return strings.TrimSpace(string(data))
}

func (r Reader) number(name string) uint64 {
	n, err := strconv.ParseUint(r.text(name), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// Read returns the machine's capacity. It fails with ErrUnreadable if not even the memory is known.
func (r Reader) Read() (Machine, error) {
	memory := r.meminfo()
	if memory["MemTotal"] == 0 {
		return Machine{}, fmt.Errorf("%w: no memory in %s", ErrUnreadable, r.path("proc/meminfo"))
	}
	m := Machine{
		CPUs:   cpuList(r.text("sys/devices/system/cpu/online")),
		Memory: memory["MemTotal"], Swap: memory["SwapTotal"],
		Hugepages:    r.hugepages(),
		MaxProcesses: r.number("proc/sys/kernel/pid_max"),
	}
	if m.CPUs == 0 {
		m.CPUs = runtime.NumCPU()
	}
	if threads := r.number("proc/sys/kernel/threads-max"); threads > 0 && (threads < m.MaxProcesses || m.MaxProcesses == 0) {
		m.MaxProcesses = threads
	}
	m.Info = corev1.NodeSystemInfo{
		MachineID:       cmp.Or(r.text("etc/machine-id"), r.text("var/lib/dbus/machine-id")),
		BootID:          r.text("proc/sys/kernel/random/boot_id"),
		KernelVersion:   r.text("proc/sys/kernel/osrelease"),
		OSImage:         r.osImage(),
		OperatingSystem: runtime.GOOS,
		Architecture:    runtime.GOARCH,
	}
	// A machine without firmware tables is identified by the ID of its installation.
	m.Info.SystemUUID = cmp.Or(r.text("sys/class/dmi/id/product_uuid"), r.text("proc/device-tree/vm,uuid"), m.Info.MachineID)
	if m.Swap > 0 {
		swap := int64(m.Swap)
		m.Info.Swap = &corev1.NodeSwapStatus{Capacity: &swap}
	}
	return m, nil
}

// meminfo returns the values of /proc/meminfo in bytes.
func (r Reader) meminfo() map[string]uint64 {
	out := map[string]uint64{}
	for line := range strings.Lines(r.text("proc/meminfo")) {
		name, rest, _ := strings.Cut(line, ":")
		fields := strings.Fields(rest)
		if len(fields) == 0 {
			continue
		}
		n, err := strconv.ParseUint(fields[0], 10, 64)
		if err != nil {
			continue
		}
		if len(fields) > 1 && fields[1] == "kB" {
			n *= 1024
		}
		out[name] = n
	}
	return out
}

func (r Reader) hugepages() map[uint64]uint64 { return r.pagesIn("sys/kernel/mm/hugepages") }

// pagesIn returns the bytes of huge pages of a directory with one for each size.
func (r Reader) pagesIn(dir string) map[uint64]uint64 {
	entries, err := os.ReadDir(r.path(dir))
	if err != nil {
		return nil
	}
	out := map[uint64]uint64{}
	for _, entry := range entries {
		kilobytes, ok := strings.CutPrefix(entry.Name(), "hugepages-")
		size, err := strconv.ParseUint(strings.TrimSuffix(kilobytes, "kB"), 10, 64)
		if !ok || err != nil {
			continue
		}
		out[size*1024] = size * 1024 * r.number(filepath.Join(dir, entry.Name(), "nr_hugepages"))
	}
	return out
}

func (r Reader) osImage() string {
	data := cmp.Or(r.text("etc/os-release"), r.text("usr/lib/os-release"))
	for line := range strings.Lines(data) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
			return strings.Trim(value, `"'`)
		}
	}
	return ""
}

// cpuList counts the CPUs in a list such as "0-3,8"; 0 if it is invalid.
func cpuList(list string) int {
	count := 0
	for part := range strings.SplitSeq(list, ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		if err != nil {
			return 0
		}
		last := first
		if isRange {
			if last, err = strconv.Atoi(to); err != nil || last < first || last-first > 1<<16 {
				return 0
			}
		}
		count += last - first + 1
	}
	return count
}

// Capacity returns the machine's capacity as that of a node, with a maximum number of pods and a number of bytes of
// ephemeral storage; 0 leaves the storage out.
func (m Machine) Capacity(pods int64, storage uint64) corev1.ResourceList {
	out := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(int64(m.CPUs)*1000, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(int64(m.Memory), resource.BinarySI),
		corev1.ResourcePods:   *resource.NewQuantity(pods, resource.DecimalSI),
	}
	if storage > 0 {
		out[corev1.ResourceEphemeralStorage] = *resource.NewQuantity(int64(storage), resource.BinarySI)
	}
	for size, bytes := range m.Hugepages {
		name := corev1.ResourceHugePagesPrefix + resource.NewQuantity(int64(size), resource.BinarySI).String()
		out[corev1.ResourceName(name)] = *resource.NewQuantity(int64(bytes), resource.BinarySI)
	}
	return out
}

// Allocatable returns what a capacity leaves for pods: everything reserved in each list (for the system, for the
// kubelet, below eviction thresholds) is subtracted, and so are huge pages from the memory. Nothing goes below 0.
func Allocatable(capacity corev1.ResourceList, reserved ...corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, quantity := range capacity {
		left := quantity.DeepCopy()
		for _, list := range reserved {
			left.Sub(list[name])
		}
		out[name] = atLeastZero(left)
	}
	memory, ok := out[corev1.ResourceMemory]
	if !ok {
		return out
	}
	for name, quantity := range capacity {
		if strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
			memory.Sub(quantity)
		}
	}
	out[corev1.ResourceMemory] = atLeastZero(memory)
	return out
}

func atLeastZero(q resource.Quantity) resource.Quantity {
	if q.Sign() < 0 {
		q.Set(0)
	}
	return q
}
