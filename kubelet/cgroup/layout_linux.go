package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"

	libcgroups "github.com/opencontainers/cgroups"
	v1 "github.com/opencontainers/cgroups/fs"
	v2 "github.com/opencontainers/cgroups/fs2"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/internal/boundedquantity"
)

// controllers lists the controllers that a Tree uses.
func controllers() []string {
	return []string{"cpu", "cpuacct", "cpuset", "memory", "pids", "hugetlb", "io"}
}

// detect finds out what is mounted.
func detect(mount string, log *slog.Logger) (layout, error) {
	base := common{log: log, controllers: map[string]bool{}, warned: &sync.Map{}}
	if data, err := os.ReadFile(filepath.Join(mount, "cgroup.controllers")); err == nil {
		for _, name := range strings.Fields(string(data)) {
			base.controllers[name] = true
		}
		return unifiedLayout{common: base, mount: mount}, nil
	}
	entries, err := os.ReadDir(mount)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	l := legacyLayout{common: base, hierarchies: map[string]string{}}
	for _, entry := range entries {
		dir := filepath.Join(mount, entry.Name())
		// Symbolic links are other names for hierarchies with several controllers.
		if !entry.IsDir() || !readable(filepath.Join(dir, libcgroups.CgroupProcesses)) {
			continue
		}
		l.all = append(l.all, dir)
		for name := range strings.SplitSeq(entry.Name(), ",") {
			l.hierarchies[name] = dir
			base.controllers[name] = true
		}
	}
	if len(l.all) == 0 {
		return nil, fmt.Errorf("%w: nothing is mounted at %s", ErrUnsupported, mount)
	}
	return l, nil
}

func readable(file string) bool {
	_, err := os.Lstat(file)
	return err == nil
}

// common is what both versions share.
type common struct {
	log         *slog.Logger
	controllers map[string]bool
	warned      *sync.Map // warnings given: controllers that are missing or unusable
}

func (c common) has(controller string) bool { return c.controllers[controller] }

// can reports whether limits of a controller can be set, and warns once if not.
func (c common) can(controller string) bool {
	_, before := c.warned.Load(controller)
	if c.controllers[controller] {
		return !before
	}
	if _, before = c.warned.LoadOrStore(controller, struct{}{}); !before {
		c.log.Warn("a cgroup controller is missing: its limits are not enforced", "controller", controller)
	}
	return false
}

// resources converts limits for the library, without those that cannot be set here.
func (c common) resources(l Limits) *libcgroups.Resources {
	r := &libcgroups.Resources{SkipDevices: true}
	if c.can("cpu") { // every cgroup has a weight
		r.CpuShares, r.CpuQuota, r.CpuPeriod = l.CPUShares, l.CPUQuota, l.CPUPeriod
		r.CpuWeight = libcgroups.ConvertCPUSharesToCgroupV2Value(l.CPUShares)
	}
	if l.Memory != 0 && c.can("memory") {
		r.Memory = l.Memory
	}
	if l.Pids != 0 && c.can("pids") {
		r.PidsLimit = &l.Pids
	}
	if c.has("hugetlb") {
		known := pageSizes()
		for _, name := range slices.Sorted(maps.Keys(known)) {
			if limit, ok := l.Hugepages[known[name]]; ok {
				r.HugetlbLimit = append(r.HugetlbLimit, &libcgroups.HugepageLimit{Pagesize: name, Limit: uint64(max(limit, 0))})
			}
		}
	}
	return r
}

// legacyLayout is cgroup v1: a hierarchy for each controller or group of controllers.
type legacyLayout struct {
	common
	hierarchies map[string]string // the directory of each controller
	all         []string          // every hierarchy, including those without a controller
}

func (legacyLayout) unified() bool { return false }

func (l legacyLayout) dirs(path string) []string {
	out := make([]string, len(l.all))
	for i, dir := range l.all {
		out[i] = filepath.Join(dir, path)
	}
	return out
}

func (l legacyLayout) limitsSwap() bool {
	dir, ok := l.hierarchies["memory"]
	return ok && readable(filepath.Join(dir, "memory.memsw.limit_in_bytes"))
}

func (l legacyLayout) shares(path string) uint64 {
	n, _ := number(filepath.Join(l.hierarchies["cpu"], path, "cpu.shares"))
	return n
}

func (l legacyLayout) limits(path string) cri.Resources {
	cpu, memory := filepath.Join(l.hierarchies["cpu"], path), filepath.Join(l.hierarchies["memory"], path)
	out := cri.Resources{CPUShares: int64(l.shares(path)), CPUQuota: -1}
	if l.hierarchies["memory"] != "" {
		out.MemoryLimit = bounded(number(filepath.Join(memory, "memory.limit_in_bytes")))
	}
	if n, ok := number(filepath.Join(cpu, "cpu.cfs_quota_us")); ok && n > 0 { // -1 is no number
		out.CPUQuota = int64(n)
	}
	period, _ := number(filepath.Join(cpu, "cpu.cfs_period_us"))
	out.CPUPeriod = int64(period)
	return out
}

// bounded is a limit of memory that was read, or -1 if it is more than any machine has.
func bounded(n uint64, ok bool) int64 {
	switch {
	case !ok:
		return 0
	case n > unlimited:
		return -1
	default:
		return int64(n)
	}
}

// paths returns the directories that a Tree itself needs; runtimes create others as they need them.
func (l legacyLayout) paths(path string) map[string]string {
	out := map[string]string{}
	for _, name := range controllers() {
		if dir, ok := l.hierarchies[name]; ok {
			out[name] = filepath.Join(dir, path)
		}
	}
	return out
}

func (l legacyLayout) create(path string) error {
	for _, dir := range l.paths(path) {
		if err := mkdir(dir); err != nil {
			return err
		}
	}
	return nil
}

func (l legacyLayout) limit(path string, limits Limits) error {
	r := l.resources(limits)
	group, err := v1.NewManager(&libcgroups.Cgroup{Path: path, Resources: r}, l.paths(path))
	if err == nil {
		err = group.Set(r)
	}
	return err
}

// unifiedLayout is cgroup v2.
type unifiedLayout struct {
	common
	mount string
}

func (unifiedLayout) unified() bool { return true }

func (l unifiedLayout) dirs(path string) []string { return []string{filepath.Join(l.mount, path)} }

// shares returns the smallest number of shares that converts to the current weight.
func (l unifiedLayout) shares(path string) uint64 {
	weight, ok := number(filepath.Join(l.mount, path, "cpu.weight"))
	if !ok {
		return 0
	}
	return minShares + uint64(sort.Search(maxShares-minShares, func(n int) bool {
		return libcgroups.ConvertCPUSharesToCgroupV2Value(minShares+uint64(n)) >= weight
	}))
}

func (l unifiedLayout) limits(path string) cri.Resources {
	dir := filepath.Join(l.mount, path)
	out := cri.Resources{CPUShares: int64(l.shares(path))}
	if data, err := os.ReadFile(filepath.Join(dir, "memory.max")); err == nil {
		out.MemoryLimit = -1
		if n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64); err == nil {
			out.MemoryLimit = n
		}
	}
	if data, err := os.ReadFile(filepath.Join(dir, "cpu.max")); err == nil {
		quota, period, _ := strings.Cut(strings.TrimSpace(string(data)), " ")
		out.CPUQuota = -1
		if n, err := strconv.ParseInt(quota, 10, 64); err == nil {
			out.CPUQuota = n
		}
		out.CPUPeriod, _ = strconv.ParseInt(period, 10, 64) // 0 if it is missing
	}
	return out
}

// limitsSwap checks the process's own cgroup: the root has no such file.
func (l unifiedLayout) limitsSwap() bool {
	own, _ := libcgroups.ParseCgroupFile("/proc/self/cgroup")
	return l.has("memory") && readable(filepath.Join(l.mount, own[""], "memory.swap.max"))
}

// create creates a cgroup and enables the controllers for it.
func (l unifiedLayout) create(path string) error {
	dir := filepath.Join(l.mount, path)
	if err := os.Mkdir(dir, 0o755); err == nil || errors.Is(err, fs.ErrExist) {
		// Controllers available in the parent are available in all its ancestors.
		if missing, err := l.missing(filepath.Dir(dir)); len(missing) == 0 {
			return err
		}
	}
	at := l.mount
	for name := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		if err := l.hand(at); err != nil {
			return err
		}
		at = filepath.Join(at, name)
		if err := os.Mkdir(at, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

const subtreeControl = "cgroup.subtree_control"

// missing returns the controllers not yet enabled for the children of a cgroup, each prefixed with a plus.
func (l unifiedLayout) missing(dir string) ([]string, error) {
	data, err := os.ReadFile(filepath.Join(dir, subtreeControl))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	on := strings.Fields(string(data))
	var out []string
	for _, name := range controllers() {
		if l.has(name) && !slices.Contains(on, name) {
			out = append(out, "+"+name)
		}
	}
	return out, nil
}

// hand enables the controllers for the children of a cgroup.
func (l unifiedLayout) hand(dir string) error {
	missing, err := l.missing(dir)
	if len(missing) == 0 {
		return err
	}
	if libcgroups.WriteFile(dir, subtreeControl, strings.Join(missing, " ")) == nil {
		return nil
	}
	for _, name := range missing { // as many as possible; setting limits reports missing ones
		if err := libcgroups.WriteFile(dir, subtreeControl, name); err != nil {
			if _, before := l.warned.LoadOrStore(name[1:], struct{}{}); !before {
				l.log.Warn("a cgroup controller cannot be used", "controller", name[1:], "cgroup", dir, "error", err)
			}
		}
	}
	return nil
}

func (l unifiedLayout) limit(path string, limits Limits) error {
	group, err := v2.NewManager(&libcgroups.Cgroup{Path: path}, filepath.Join(l.mount, path))
	if err == nil {
		err = group.Set(l.resources(limits))
	}
	return err
}

func mkdir(dir string) error {
	err := os.Mkdir(dir, 0o755)
	if errors.Is(err, fs.ErrNotExist) {
		err = os.MkdirAll(dir, 0o755)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// pageSizes returns the sizes of huge pages in bytes, by their names in the kernel's files.
func pageSizes() map[string]int64 {
	out := map[string]int64{}
	for _, name := range libcgroups.HugePageSizes() {
		q, err := boundedquantity.Parse(strings.TrimSuffix(name, "B") + "i")
		if err == nil {
			out[name] = q.Value()
		}
	}
	return out
}

func removeDirectory(dir string) error {
	for {
		err := syscall.Rmdir(dir)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
