package cgroup_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	libcgroups "github.com/opencontainers/cgroups"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet/cgroup"
)

// fakeMount makes a directory that stands in for a mount of cgroup v2, or of v1 with these hierarchies. The library
// writes to it while the test runs.
func fakeMount(t *testing.T, unified bool, hierarchies ...string) string {
	t.Helper()
	libcgroups.TestMode = true
	t.Cleanup(func() { libcgroups.TestMode = false })
	dir := t.TempDir()
	if unified {
		write(t, filepath.Join(dir, "cgroup.controllers"), strings.Join(hierarchies, " "))
		return dir
	}
	for _, name := range hierarchies {
		write(t, filepath.Join(dir, name, "cgroup.procs"), "")
	}
	return dir
}

func write(t *testing.T, file, data string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

// files checks the contents of files in a directory; a missing file counts as empty.
func files(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	for name, value := range want {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if strings.TrimSpace(string(got)) != value {
			t.Errorf("%s is %q, not %q", filepath.Join(dir, name), got, value)
		}
	}
}

const root = "/keelson/node-0/kubepods"

func TestUnifiedFiles(t *testing.T) {
	mount := fakeMount(t, true, "cpuset", "cpu", "io", "memory", "pids", "rdma")
	at := func(path string) string { return filepath.Join(mount, root, path) }
	// The kernel makes this file in every cgroup.
	for _, dir := range []string{"", "burstable", "besteffort", "podg", "burstable/podb", "besteffort/pode"} {
		write(t, filepath.Join(at(dir), "cgroup.controllers"), "cpuset cpu io memory pids")
	}
	c, err := cgroup.New(root, cgroup.Options{Mount: mount, PodPids: 64, Offered: list("cpu", "4", "memory", "8Gi", "pid", "1000")})
	if err != nil {
		t.Fatal(err)
	}
	if !c.Unified() {
		t.Error("v2 is not recognised")
	}
	for _, pod := range []*corev1.Pod{guaranteed("g"), burstable("b"), bestEffort("e")} {
		if _, err := c.Ensure(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	files(t, at(""), map[string]string{"cpu.weight": "303", "memory.max": "8589934592", "pids.max": "1000"})
	files(t, at("burstable"), map[string]string{"cpu.weight": "35", "memory.max": ""})
	files(t, at("besteffort"), map[string]string{"cpu.weight": "1"})
	files(t, at("podg"), map[string]string{
		"cpu.weight": "59", "cpu.max": "50000 100000", "memory.max": "67108864", "pids.max": "64"})
	files(t, at("burstable/podb"), map[string]string{
		"cpu.weight": "35", "cpu.max": "100000 100000", "memory.max": "67108864", "pids.max": "64"})
	files(t, at("besteffort/pode"), map[string]string{"cpu.weight": "1", "cpu.max": "", "memory.max": "", "pids.max": "64"})
	handed := "+cpu +cpuset +memory +pids +io"
	for _, dir := range []string{"../../..", "../..", "..", "", "burstable", "besteffort"} {
		files(t, at(dir), map[string]string{"cgroup.subtree_control": handed})
	}

	// A resized pod gets new limits.
	larger := pod("g", container("a", list("cpu", "1", "memory", "128Mi"), list("cpu", "1", "memory", "128Mi")))
	if _, err := c.Ensure(t.Context(), larger); err != nil {
		t.Fatal(err)
	}
	files(t, at("podg"), map[string]string{"cpu.weight": "100", "cpu.max": "100000 100000", "memory.max": "134217728"})
}

func TestLegacyFiles(t *testing.T) {
	mount := fakeMount(t, false, "cpu,cpuacct", "memory", "pids", "devices", "systemd")
	c, err := cgroup.New(root, cgroup.Options{Mount: mount, Offered: list("cpu", "2")})
	if err != nil {
		t.Fatal(err)
	}
	if c.Unified() {
		t.Error("v1 is not recognised")
	}
	for _, pod := range []*corev1.Pod{burstable("b1"), burstable("b2"), bestEffort("e")} {
		if _, err := c.Ensure(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	at := func(hierarchy, path string) string { return filepath.Join(mount, hierarchy, root, path) }
	files(t, at("cpu,cpuacct", ""), map[string]string{"cpu.shares": "2048"})
	files(t, at("cpu,cpuacct", "burstable"), map[string]string{"cpu.shares": "512"})
	files(t, at("cpu,cpuacct", "besteffort"), map[string]string{"cpu.shares": "2"})
	files(t, at("cpu,cpuacct", "burstable/podb1"), map[string]string{
		"cpu.shares": "256", "cpu.cfs_quota_us": "100000", "cpu.cfs_period_us": "100000"})
	files(t, at("memory", "burstable/podb1"), map[string]string{"memory.limit_in_bytes": "67108864"})
	files(t, at("memory", "besteffort/pode"), map[string]string{"memory.limit_in_bytes": ""})
	if _, err := os.Stat(at("devices", "")); err == nil {
		t.Error("a hierarchy that limits nothing has a cgroup")
	}

	// The weight of the class is the sum of its pods, including those not seen one by one.
	if err := c.Weigh([]*corev1.Pod{burstable("b1"), burstable("b3"), burstable("b4"), guaranteed("g")}); err != nil {
		t.Fatal(err)
	}
	files(t, at("cpu,cpuacct", "burstable"), map[string]string{"cpu.shares": "768"})
	if err := c.Weigh(nil); err != nil {
		t.Fatal(err)
	}
	files(t, at("cpu,cpuacct", "burstable"), map[string]string{"cpu.shares": "2"})
}

// TestRestart: the class keeps its weight when a kubelet starts that does not know its pods yet.
func TestRestart(t *testing.T) {
	for name, unified := range map[string]bool{"v1": false, "v2": true} {
		t.Run(name, func(t *testing.T) {
			mount := fakeMount(t, unified, "cpu")
			start := func() *cgroup.Tree {
				t.Helper()
				c, err := cgroup.New(root, cgroup.Options{Mount: mount})
				if err != nil {
					t.Fatal(err)
				}
				return c
			}
			first := start()
			dir, want := filepath.Join(mount, "cpu", root, "burstable"), map[string]string{"cpu.shares": "1280"}
			if unified {
				dir, want = filepath.Join(mount, root, "burstable"), map[string]string{"cpu.weight": "120"}
				for _, path := range []string{"..", ".", "../besteffort", "poda", "podb", "podc", "podd", "pode"} {
					write(t, filepath.Join(dir, path, "cgroup.controllers"), "cpu")
				}
			}
			for _, uid := range []types.UID{"a", "b", "c", "d"} {
				if _, err := first.Ensure(t.Context(), burstable(uid)); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := start().Ensure(t.Context(), burstable("e")); err != nil {
				t.Fatal(err)
			}
			files(t, dir, want)
		})
	}
}

// TestMissingControllers: limits that cannot be enforced are skipped, and the pod runs.
func TestMissingControllers(t *testing.T) {
	mount := fakeMount(t, false, "freezer", "systemd")
	var warnings strings.Builder
	c, err := cgroup.New(root, cgroup.Options{Mount: mount, PodPids: 5, Logger: logTo(&warnings)})
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range []*corev1.Pod{guaranteed("g"), burstable("b")} {
		if _, err := c.Ensure(t.Context(), pod); err != nil {
			t.Error(err)
		}
	}
	for _, controller := range []string{"cpu", "memory", "pids"} {
		if n := strings.Count(warnings.String(), "controller="+controller+"\n"); n != 1 {
			t.Errorf("%d warnings about %s:\n%s", n, controller, warnings.String())
		}
	}
}

func TestNew(t *testing.T) {
	for _, bad := range []string{"", "/", "kubepods", "/a/../b", "/a/"} {
		if _, err := cgroup.New(bad, cgroup.Options{}); !errors.Is(err, cgroup.ErrInvalid) {
			t.Errorf("root %q: %v", bad, err)
		}
	}
	for _, mount := range []string{t.TempDir(), filepath.Join(t.TempDir(), "missing")} {
		if _, err := cgroup.New(root, cgroup.Options{Mount: mount}); !errors.Is(err, cgroup.ErrUnsupported) {
			t.Errorf("no cgroups: %v", err)
		}
	}
	c, err := cgroup.New(root, cgroup.Options{Mount: fakeMount(t, false, "cpu")})
	if err != nil {
		t.Fatal(err)
	}
	for _, uid := range []string{"", "../..", "a/b"} {
		if _, err := c.Ensure(t.Context(), bestEffort(types.UID(uid))); !errors.Is(err, cgroup.ErrInvalid) {
			t.Errorf("UID %q: %v", uid, err)
		}
		if err := c.Remove(t.Context(), types.UID(uid)); !errors.Is(err, cgroup.ErrInvalid) {
			t.Errorf("removing UID %q: %v", uid, err)
		}
	}
}

func TestMemory(t *testing.T) {
	now := time.Unix(1, 0)
	for name, unified := range map[string]bool{"v1": false, "v2": true} {
		t.Run(name, func(t *testing.T) {
			mount := fakeMount(t, unified, "memory")
			dir := filepath.Join(mount, "memory", root)
			if unified {
				dir = filepath.Join(mount, root)
				write(t, filepath.Join(dir, "memory.current"), "1000\n")
				write(t, filepath.Join(dir, "memory.stat"), "anon 5\ninactive_file 300\n")
			} else {
				write(t, filepath.Join(dir, "memory.usage_in_bytes"), "1000\n")
				write(t, filepath.Join(dir, "memory.stat"), "inactive_file 1\ntotal_inactive_file 300\n")
			}
			c, err := cgroup.New(root, cgroup.Options{Mount: mount})
			if err != nil {
				t.Fatal(err)
			}
			limit, most := filepath.Join(dir, "memory.limit_in_bytes"), "9223372036854771712"
			if unified {
				limit, most = filepath.Join(dir, "memory.max"), "max"
			}
			want := cri.MemoryUsage{At: now, Usage: 1000, WorkingSet: 700}
			for value, available := range map[string]uint64{most: 0, "1700": 1000, "600": 0} {
				write(t, limit, value+"\n")
				want.Available = available
				if got, err := c.Memory(now); err != nil || got != want {
					t.Errorf("limit %s: %+v, %v", value, got, err)
				}
			}
		})
	}
	c, err := cgroup.New(root, cgroup.Options{Mount: fakeMount(t, false, "cpu")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Memory(now); !errors.Is(err, cgroup.ErrUnsupported) {
		t.Errorf("no controller: %v", err)
	}
}
