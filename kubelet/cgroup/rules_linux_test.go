package cgroup_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	libcgroups "github.com/opencontainers/cgroups"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/fakeroot"
	"github.com/keelson-dev/keelson/kubelet/cgroup"
)

// unified makes a mount of cgroup v2 with the tree's own cgroups and these, and with the kernel's files in them.
func unified(t *testing.T, controllers string, paths ...string) string {
	t.Helper()
	mount := fakeMount(t, true, controllers)
	for _, path := range append([]string{"", "burstable", "besteffort"}, paths...) {
		write(t, filepath.Join(mount, root, path, "cgroup.controllers"), controllers)
	}
	return mount
}

func ensure(t *testing.T, c *cgroup.Tree, pods ...*corev1.Pod) {
	t.Helper()
	for _, pod := range pods {
		if _, err := c.Ensure(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
}

// TestHugepages: huge pages are limited for all pods together and for each, but not for classes, and only in the files
// of their size.
func TestHugepages(t *testing.T) {
	sizes := slices.Sorted(slices.Values(libcgroups.HugePageSizes()))
	if !slices.Contains(sizes, "2MB") {
		t.Skip("the machine has no such pages")
	}
	huge := pod("g", container("a", list("cpu", "1", "hugepages-2Mi", "4Mi"), list("cpu", "1", "hugepages-2Mi", "4Mi")))
	for name, test := range map[string]struct {
		mount, dir, file string
	}{
		"v1": {fakeMount(t, false, "cpu", "hugetlb"), "hugetlb", "hugetlb.2MB.limit_in_bytes"},
		"v2": {unified(t, "cpu hugetlb", "burstable/podg", "burstable/podn"), "", "hugetlb.2MB.max"},
	} {
		t.Run(name, func(t *testing.T) {
			at := func(path string) string { return filepath.Join(test.mount, test.dir, root, path) }
			c := newTree(t, test.mount, cgroup.Options{Offered: list("hugepages-2Mi", "64Mi")})
			if got := c.Machine().HugepageSizes; !slices.Equal(got, sizes) {
				t.Errorf("sizes %v, not %v", got, sizes)
			}
			ensure(t, c, huge, burstable("n"))
			for path, want := range map[string]string{"": "67108864", "burstable": "4611686018427387904", "besteffort": "4611686018427387904", "burstable/podg": "4194304", "burstable/podn": ""} {
				files(t, at(path), map[string]string{test.file: want})
			}
			if err := newTree(t, test.mount, cgroup.Options{Offered: list("hugepages-2Mi", "-1")}).Prepare(t.Context()); err != nil {
				t.Fatal(err)
			}
			files(t, at(""), map[string]string{test.file: "0"})
		})
	}
	if got := newTree(t, fakeMount(t, false, "cpu"), cgroup.Options{}).Machine().HugepageSizes; len(got) > 0 {
		t.Errorf("sizes without a controller: %v", got)
	}
}

// TestPreparedOnce: the classes are limited for the first pod, and again only after they were removed.
func TestPreparedOnce(t *testing.T) {
	mount := fakeMount(t, false, "cpu")
	at := func(path string) string { return filepath.Join(mount, "cpu", root, path, "cpu.shares") }
	shares := func(want map[string]string) {
		t.Helper()
		for path, value := range want {
			files(t, filepath.Dir(at(path)), map[string]string{"cpu.shares": value})
		}
	}
	write(t, at("burstable/podold"), "1024")
	var log strings.Builder
	c := newTree(t, mount, cgroup.Options{Logger: logTo(&log)})
	ensure(t, c, bestEffort("e"))
	// Without an offer from the node, the weight is that of one CPU.
	shares(map[string]string{"": "1024", "burstable": "1024", "besteffort": "2"})
	for _, path := range []string{"", "burstable", "besteffort"} {
		write(t, at(path), "as it was")
	}
	ensure(t, c, bestEffort("f"), guaranteed("g"))
	shares(map[string]string{"": "as it was", "burstable": "as it was", "besteffort": "as it was"})

	class := filepath.Dir(at("besteffort"))
	if err := os.RemoveAll(class); err != nil {
		t.Fatal(err)
	}
	write(t, class, "a file")
	if _, err := c.Ensure(t.Context(), bestEffort("h")); err == nil {
		t.Error("a pod's cgroup was made below a file")
	}
	// Nothing is written until the next pod: if one class was removed, the other may be gone too.
	if err := errors.Join(os.Remove(class), os.RemoveAll(filepath.Dir(at("burstable")))); err != nil {
		t.Fatal(err)
	}
	log.Reset()
	if err := c.Remove(t.Context(), "old"); err != nil {
		t.Error(err)
	}
	if log.String() != "" {
		t.Errorf("logged %s", log.String())
	}
	ensure(t, c, bestEffort("h"))
	shares(map[string]string{"": "1024", "burstable": "2", "besteffort": "2", "besteffort/podh": "2"})
}

// TestRemoveAllForgets: after the whole tree was removed it is made anew, with the weight of its new pods.
func TestRemoveAllForgets(t *testing.T) {
	mount := fakeMount(t, false, "cpu")
	c := newTree(t, mount, cgroup.Options{Offered: list("cpu", "2")})
	ensure(t, c, burstable("a"), burstable("b"))
	base := filepath.Join(mount, "cpu", root)
	if err := os.RemoveAll(base); err != nil { // the kernel's files do not keep a cgroup from being removed
		t.Fatal(err)
	}
	if err := c.RemoveAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	ensure(t, c, burstable("c"))
	for path, want := range map[string]string{".": "2048", "burstable": "256", "besteffort": "2"} {
		files(t, filepath.Join(base, path), map[string]string{"cpu.shares": want})
	}
}

// TestWhatIsNotAsked: there are no warnings about limits that were not requested.
func TestWhatIsNotAsked(t *testing.T) {
	var log strings.Builder
	c := newTree(t, fakeMount(t, false, "cpu"), cgroup.Options{Logger: logTo(&log)})
	ensure(t, c, bestEffort("a"), pod("b", container("a", list("cpu", "1"), nil)))
	if log.String() != "" {
		t.Errorf("logged %s", log.String())
	}
}

// TestDevices: the tree does not limit devices, whatever else is linked into the program.
func TestDevices(t *testing.T) {
	asked := 0
	libcgroups.DevicesSetV2 = func(_ string, r *libcgroups.Resources) error {
		if asked++; !r.SkipDevices {
			return errors.New("devices are limited")
		}
		return nil
	}
	t.Cleanup(func() { libcgroups.DevicesSetV2 = nil })
	ensure(t, newTree(t, unified(t, "cpu", "besteffort/poda"), cgroup.Options{}), bestEffort("a"))
	if asked == 0 {
		t.Error("nobody asked")
	}
}

// TestAdoptedWeights: an earlier pod whose weight cannot be read adds none.
func TestAdoptedWeights(t *testing.T) {
	paths := []string{"besteffort/poda"}
	for n := range 200 {
		paths = append(paths, "burstable/pod"+strconv.Itoa(n))
	}
	mount := unified(t, "cpu", paths...)
	ensure(t, newTree(t, mount, cgroup.Options{}), bestEffort("a"))
	files(t, filepath.Join(mount, root, "burstable"), map[string]string{"cpu.weight": "1"})
}

// TestUnreadableClass: an unreadable class is an error for Orphans, and a warning otherwise.
func TestUnreadableClass(t *testing.T) {
	mount := fakeMount(t, false, "cpu")
	write(t, filepath.Join(mount, "cpu", root, "burstable"), "a file")
	var log strings.Builder
	c := newTree(t, mount, cgroup.Options{Logger: logTo(&log)})
	if orphans, err := c.Orphans(func(types.UID) bool { return false }); !errors.Is(err, syscall.ENOTDIR) || orphans != nil || !strings.HasPrefix(err.Error(), "looking for pods' cgroups: ") {
		t.Errorf("orphans %v, %v", orphans, err)
	}
	if err := c.Prepare(t.Context()); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), `msg="looking for burstable pods failed"`) {
		t.Errorf("logged %s", log.String())
	}
}

// TestSwap: swap is limited if both it and memory can be limited for the process's own cgroup.
func TestSwap(t *testing.T) {
	own, err := libcgroups.ParseCgroupFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		controllers, file string
		want              bool
	}{
		"both":          {"cpu memory", "memory.swap.max", true},
		"no file":       {"cpu memory", "memory.swap.high", false},
		"no controller": {"cpu", "memory.swap.max", false},
	} {
		mount := fakeMount(t, true, test.controllers)
		write(t, filepath.Join(mount, own[""], test.file), "max")
		if got := newTree(t, mount, cgroup.Options{}).Machine().Swap; got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	// Files elsewhere do not count.
	mount := fakeMount(t, false, "cpu")
	t.Chdir(t.TempDir())
	write(t, "memory.memsw.limit_in_bytes", "1")
	if newTree(t, mount, cgroup.Options{}).Machine().Swap {
		t.Error("swap is limited without memory")
	}
}

func TestDefaultMount(t *testing.T) {
	c, err := cgroup.New(root, cgroup.Options{})
	if err != nil {
		if !errors.Is(err, cgroup.ErrUnsupported) || !strings.Contains(err.Error(), "/sys/fs/cgroup") {
			t.Errorf("got %v", err)
		}
		return
	}
	for _, dir := range c.Dirs(root) {
		if !strings.HasPrefix(dir, "/sys/fs/cgroup/") {
			t.Errorf("directory %s", dir)
		}
	}
}

// TestRetries: a removal is tried again at once, and then less often, for ten seconds.
func TestRetries(t *testing.T) {
	for freed, want := range map[time.Duration]time.Duration{
		500 * time.Microsecond: time.Millisecond,
		6 * time.Millisecond:   7 * time.Millisecond,
		64 * time.Millisecond:  113 * time.Millisecond, // after 63 ms it waits no longer than 50
		114 * time.Millisecond: 163 * time.Millisecond,
		time.Hour:              10 * time.Second,
	} {
		t.Run(freed.String(), func(t *testing.T) {
			mount := fakeMount(t, true, "cpu")
			c := newTree(t, mount, cgroup.Options{})
			dir := filepath.Join(mount, root, "poda")
			write(t, filepath.Join(dir, "busy", "file"), "")
			synctest.Test(t, func(t *testing.T) {
				time.AfterFunc(freed, func() { _ = os.RemoveAll(dir) })
				start := time.Now()
				err := c.Remove(t.Context(), "a")
				if took := time.Since(start); took != want {
					t.Errorf("took %s, not %s", took, want)
				}
				if freed < want != (err == nil) || (err != nil && !errors.Is(err, cgroup.ErrBusy)) {
					t.Errorf("got %v", err)
				}
				if err != nil && !strings.Contains(err.Error(), "removing "+dir+"/busy: ") {
					t.Errorf("%v does not name what is busy", err)
				}
			})
		})
	}
}

// TestKilledOnce: if the kernel kills all processes at once, none is killed one by one: the ID may be another process's
// by then.
func TestKilledOnce(t *testing.T) {
	mount := fakeMount(t, true, "cpu")
	c := newTree(t, mount, cgroup.Options{})
	dir := filepath.Join(mount, root, "poda")
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "cgroup.kill"), "")
	write(t, filepath.Join(dir, "cgroup.procs"), strconv.Itoa(cmd.Process.Pid))
	synctest.Test(t, func(t *testing.T) {
		if err := c.Remove(t.Context(), "a"); !errors.Is(err, cgroup.ErrBusy) {
			t.Errorf("got %v", err)
		}
	})
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err == nil || err.Error() != "signal: terminated" {
		t.Errorf("the process ended with %v", err)
	}
}

const control = "cgroup.subtree_control"

// TestHandingDown: missing controllers are enabled, starting at the top only if the parent lacks some.
func TestHandingDown(t *testing.T) {
	mount := fakeMount(t, true, "cpu memory")
	if err := newTree(t, mount, cgroup.Options{}).Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"burstable", "besteffort"} {
		if !is(t, filepath.Join(mount, root, dir)) {
			t.Errorf("%s is not made", dir)
		}
	}

	mount = unified(t, "cpu", "besteffort/poda")
	c := newTree(t, mount, cgroup.Options{})
	ensure(t, c, bestEffort("a"))
	for _, dir := range []string{root, root + "/besteffort"} {
		write(t, filepath.Join(mount, dir, control), "cpu")
	}
	// Checking the top would fail.
	if err := os.Remove(filepath.Join(mount, control)); err != nil {
		t.Fatal(err)
	}
	directories(t, mount, control)
	for _, uid := range []types.UID{"a", "b"} {
		p := pod(uid, container("a", list("hugepages-2Mi", "2Mi"), nil))
		p.Status.QOSClass = corev1.PodQOSBestEffort
		want := "limiting cgroup " + root + "/besteffort/podb: " // without the kernel's files
		if _, err := c.Ensure(t.Context(), p); (uid == "a") != (err == nil) || (err != nil && !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s: %v", uid, err)
		}
	}

	mount = fakeMount(t, true, "cpu")
	directories(t, mount, control)
	if err := newTree(t, mount, cgroup.Options{}).Prepare(t.Context()); !errors.Is(err, syscall.EISDIR) || !strings.HasPrefix(err.Error(), "making cgroup "+root+": ") {
		t.Errorf("got %v", err)
	}
}

// TestRefusedControllers: a controller that the kernel does not enable is reported once, and limits nothing.
func TestRefusedControllers(t *testing.T) {
	for had, refused := range map[string][]string{"": {"cpu", "memory"}, "cpu": {"memory"}, "memory": {"cpu"}} {
		t.Run(had, func(t *testing.T) {
			mount := unified(t, "cpu memory", "podg", "podh")
			for _, dir := range []string{"/", "/keelson", "/keelson/node-0", root, root + "/burstable"} {
				file := filepath.Join(mount, dir, control)
				write(t, file, had)
				if err := os.Chmod(file, 0o444); err != nil {
					t.Fatal(err)
				}
			}
			var log strings.Builder
			c := newTree(t, mount, cgroup.Options{Logger: logTo(&log)})
			fakeroot.Unprivileged(t, func() { ensure(t, c, guaranteed("g"), guaranteed("h")) })
			want := map[string]string{"cpu.weight": "59", "memory.max": "67108864"}
			for _, controller := range refused {
				if n := strings.Count(log.String(), `msg="a cgroup controller cannot be used" controller=`+controller+" cgroup="+mount+" "); n != 1 {
					t.Errorf("%d warnings of %s", n, controller)
				}
				want[map[string]string{"cpu": "cpu.weight", "memory": "memory.max"}[controller]] = ""
			}
			if n := strings.Count(log.String(), "\n"); n != len(refused) {
				t.Errorf("logged %s", log.String())
			}
			files(t, filepath.Join(mount, root, "podg"), want)
		})
	}
}

// TestDirectoryThatCannotBeMade: a cgroup that cannot be created is an error.
func TestDirectoryThatCannotBeMade(t *testing.T) {
	mount := fakeMount(t, true, "cpu")
	for _, dir := range []string{mount, filepath.Join(mount, "keelson")} {
		write(t, filepath.Join(dir, control), "cpu")
	}
	if err := os.Chmod(filepath.Join(mount, "keelson"), 0o555); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.Chmod(filepath.Join(mount, "keelson"), 0o755) }()
	fakeroot.Unprivileged(t, func() {
		if err := newTree(t, mount, cgroup.Options{}).Prepare(t.Context()); !errors.Is(err, os.ErrPermission) || !strings.HasPrefix(err.Error(), "making cgroup "+root+": mkdir "+mount+"/keelson/node-0: ") {
			t.Errorf("got %v", err)
		}
	})
}

// TestUnifiedLimits: with v2 too, a pod that cannot be limited does not run.
func TestUnifiedLimits(t *testing.T) {
	mount := unified(t, "cpu memory", "podg", "podg/memory.max")
	want := "limiting cgroup " + root + "/podg: "
	if _, err := newTree(t, mount, cgroup.Options{}).Ensure(t.Context(), guaranteed("g")); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v", err)
	}
}

// TestMemoryThatCannotBeRead: missing values count as zero.
func TestMemoryThatCannotBeRead(t *testing.T) {
	mount := fakeMount(t, true, "memory")
	for file, data := range map[string]string{"memory.current": "1000", "memory.max": "1500", "memory.stat": "inactive_file many\nanon 5"} {
		write(t, filepath.Join(mount, root, file), data)
	}
	c := newTree(t, mount, cgroup.Options{})
	for _, stat := range []string{"unreadable", "missing"} {
		if got, err := c.Memory(time.Unix(1, 0)); err != nil || got.WorkingSet != 1000 || got.Available != 500 {
			t.Errorf("%s: %+v, %v", stat, got, err)
		}
		_ = os.Remove(filepath.Join(mount, root, "memory.stat"))
	}
}
