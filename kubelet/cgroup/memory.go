package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/keelson-dev/keelson/cri"
)

// unlimited is more than any machine has: without a limit, v1 reports nearly 1<<63.
const unlimited = 1 << 60

// Memory returns how much memory all pods together use, and how much of their limit is left, if there is a limit. It
// fails with ErrUnsupported if the machine does not report memory use.
func (t *Tree) Memory(now time.Time) (cri.MemoryUsage, error) {
	current, limit, cache := "memory.usage_in_bytes", "memory.limit_in_bytes", "total_inactive_file"
	if t.Unified() {
		current, limit, cache = "memory.current", "memory.max", "inactive_file"
	}
	for _, dir := range t.layout.dirs(t.root) {
		usage, ok := number(filepath.Join(dir, current))
		if !ok {
			continue
		}
		stat := keys(filepath.Join(dir, "memory.stat"))
		out := cri.MemoryUsage{At: now, Usage: usage, WorkingSet: usage - min(usage, stat[cache])}
		if most, _ := number(filepath.Join(dir, limit)); most < unlimited { // "max" reads as 0
			out.Available = most - min(most, out.WorkingSet)
		}
		return out, nil
	}
	return cri.MemoryUsage{}, fmt.Errorf("memory of cgroup %s: %w", t.root, ErrUnsupported)
}

func number(file string) (n uint64, ok bool) {
	data, err := os.ReadFile(file)
	if err == nil {
		n, err = strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64)
	}
	return n, err == nil
}

func keys(file string) map[string]uint64 {
	out := map[string]uint64{}
	data, _ := os.ReadFile(file) // a missing file reads as none
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseUint(value, 10, 64); err == nil {
			out[name] = n
		}
	}
	return out
}
