package machine

import (
	"strconv"
	"strings"
	"time"

	"github.com/keelson-dev/keelson/cri"
)

// Usage is what is used of a machine.
type Usage struct {
	At time.Time // when it was read
	// CPU is the time that all CPUs together were busy since boot, in nanoseconds.
	CPU uint64
	// Memory is the memory in use. The working set excludes what can be dropped at once; available is the rest.
	Memory cri.MemoryUsage
	// SwapUsed and SwapAvailable are in bytes.
	SwapUsed, SwapAvailable uint64
	// Processes is the number of processes and threads.
	Processes uint64
	// Network lists the machine's interfaces except the loopback, in the kernel's order.
	Network []cri.InterfaceUsage
}

// userHertz is the unit of the times in /proc/stat: hundredths of a second on all of Linux.
const userHertz = 100

// Usage returns what is used now; now is only recorded in the result.
func (r Reader) Usage(now time.Time) Usage {
	memory := r.meminfo()
	used := sub(memory["MemTotal"], memory["MemFree"])
	working := sub(used, memory["Inactive(file)"])
	faults := r.keys("proc/vmstat")
	return Usage{
		At:  now,
		CPU: r.busy(),
		Memory: cri.MemoryUsage{
			At: now, Usage: used, WorkingSet: working, Available: sub(memory["MemTotal"], working),
			RSS:        memory["AnonPages"],
			PageFaults: faults["pgfault"], MajorPageFaults: faults["pgmajfault"],
		},
		SwapUsed: sub(memory["SwapTotal"], memory["SwapFree"]), SwapAvailable: memory["SwapFree"],
		Processes: r.processes(),
		Network:   r.interfaces(),
	}
}

func sub(a, b uint64) uint64 {
	return a - min(a, b)
}

// keys returns the lines of a file that consist of a name and a number.
func (r Reader) keys(name string) map[string]uint64 {
	out := map[string]uint64{}
	for line := range strings.Lines(r.text(name)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseUint(value, 10, 64); err == nil {
			out[key] = n
		}
	}
	return out
}

// busy adds up the times in /proc/stat during which the CPUs were busy: user, nice, system, interrupts and steal, but
// neither idle nor iowait. Guest time is included in user.
func (r Reader) busy() uint64 {
	line, _, _ := strings.Cut(r.text("proc/stat"), "\n")
	fields := strings.Fields(line)
	if len(fields) == 0 || fields[0] != "cpu" {
		return 0
	}
	sum := uint64(0)
	for i, field := range fields[1:min(len(fields), 9)] {
		const idle, ioWait = 3, 4
		n, err := strconv.ParseUint(field, 10, 64)
		if err == nil && i != idle && i != ioWait {
			sum += n
		}
	}
	return sum * uint64(time.Second/userHertz)
}

// processes returns the number after the slash in /proc/loadavg.
func (r Reader) processes() uint64 {
	fields := strings.Fields(r.text("proc/loadavg"))
	if len(fields) < 4 {
		return 0
	}
	_, all, _ := strings.Cut(fields[3], "/")
	n, err := strconv.ParseUint(all, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func (r Reader) interfaces() []cri.InterfaceUsage {
	var out []cri.InterfaceUsage
	for line := range strings.Lines(r.text("proc/net/dev")) {
		name, rest, _ := strings.Cut(line, ":")
		fields := strings.Fields(rest)
		name = strings.TrimSpace(name)
		if len(fields) < 11 || name == "lo" {
			continue
		}
		var n [11]uint64
		for i := range n {
			n[i], _ = strconv.ParseUint(fields[i], 10, 64)
		}
		out = append(out, cri.InterfaceUsage{Name: name, RxBytes: n[0], RxErrors: n[2], TxBytes: n[8], TxErrors: n[10]})
	}
	return out
}

// Filesystem is how full a filesystem is, in bytes and inodes.
type Filesystem struct {
	Capacity, Available, Used      uint64 // bytes
	Inodes, InodesFree, InodesUsed uint64 // 0 if the filesystem has none
	// ID identifies the filesystem.
	ID uint64
}
