package cgroup_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/kubelet/cgroup"
)

// directories makes directories below a mount, as cgroups without their files.
func directories(t *testing.T, mount string, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if err := os.MkdirAll(filepath.Join(mount, path), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

func newTree(t *testing.T, mount string, o cgroup.Options) *cgroup.Tree {
	t.Helper()
	o.Mount = mount
	c, err := cgroup.New(root, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func is(t *testing.T, dir string) bool {
	t.Helper()
	_, err := os.Lstat(dir)
	return err == nil
}

// A pod's cgroups are removed with everything below them, in every hierarchy and class; others stay.
func TestRemoveDirectories(t *testing.T) {
	for name, hierarchies := range map[string][]string{"v2": {""}, "v1": {"cpu", "memory"}} {
		t.Run(name, func(t *testing.T) {
			mount := fakeMount(t, name == "v2", hierarchies...)
			c := newTree(t, mount, cgroup.Options{})
			for _, h := range hierarchies {
				directories(t, mount, h+root+"/poda/container/deeper", h+root+"/poda/other", h+root+"/burstable/podb/container", h+root+"/besteffort/podab")
			}
			if err := c.Remove(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
			if err := c.Remove(t.Context(), "unheard-of"); err != nil {
				t.Fatal(err)
			}
			for _, h := range hierarchies {
				if is(t, filepath.Join(mount, h, root, "poda")) || !is(t, filepath.Join(mount, h, root, "burstable/podb/container")) || !is(t, filepath.Join(mount, h, root, "besteffort/podab")) {
					t.Errorf("hierarchy %q: wrong cgroups are left", h)
				}
			}
			if orphans, err := c.Orphans(func(uid types.UID) bool { return uid == "ab" }); err != nil || !slices.Equal(orphans, []types.UID{"b"}) {
				t.Errorf("orphans %v, %v", orphans, err)
			}
			for _, h := range hierarchies {
				directories(t, mount, h+filepath.Dir(filepath.Dir(root))+"/neighbour", h+root+"/pod", h+root+"/other")
				write(t, filepath.Join(mount, h, root, "besteffort", "podfile"), "")
			}
			if orphans, err := c.Orphans(func(types.UID) bool { return false }); err != nil || !slices.Equal(orphans, []types.UID{"ab", "b"}) {
				t.Errorf("orphans %v, %v", orphans, err)
			}
			for _, h := range hierarchies {
				if err := os.Remove(filepath.Join(mount, h, root, "besteffort", "podfile")); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.RemoveAll(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, h := range hierarchies {
				// Parents are removed too, unless others use them.
				if is(t, filepath.Join(mount, h, filepath.Dir(root))) || !is(t, filepath.Join(mount, h, filepath.Dir(filepath.Dir(root)), "neighbour")) {
					t.Errorf("hierarchy %q: wrong cgroups are left", h)
				}
			}
			if orphans, err := c.Orphans(func(types.UID) bool { return false }); err != nil || len(orphans) != 0 {
				t.Errorf("orphans %v, %v", orphans, err)
			}
		})
	}
}

// Removal is retried until it succeeds or the context ends. Processes inside are killed.
func TestRemoveWaits(t *testing.T) {
	mount := fakeMount(t, true, "cpu")
	c := newTree(t, mount, cgroup.Options{})
	busy := filepath.Join(mount, root, "poda", "busy")
	directories(t, mount, root+"/poda/busy", root+"/besteffort/podb")
	file := filepath.Join(busy, "file")
	write(t, file, "")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if err := c.Remove(ctx, "a"); !errors.Is(err, cgroup.ErrBusy) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "removing the cgroups of pod a: ") || !strings.Contains(err.Error(), busy) {
		t.Errorf("got %v", err)
	}
	over, stop := context.WithCancel(t.Context())
	stop()
	if err := c.RemoveAll(over); !errors.Is(err, cgroup.ErrBusy) || !strings.Contains(err.Error(), "removing cgroup "+root+": ") {
		t.Errorf("got %v", err)
	}
	removed := make(chan error)
	go func() { removed <- c.Remove(t.Context(), "a") }()
	for done := false; !done; {
		select {
		case err := <-removed:
			if done = true; err != nil || is(t, filepath.Join(mount, root, "poda")) {
				t.Errorf("got %v", err)
			}
		case <-time.After(5 * time.Millisecond):
			_ = os.RemoveAll(filepath.Join(mount, root, "poda")) // including the file that kills processes
		}
	}
}

// TestKill: without a kill file, processes are killed one by one, including those in nested cgroups.
func TestKill(t *testing.T) {
	mount := fakeMount(t, false, "cpu")
	c := newTree(t, mount, cgroup.Options{})
	dir := filepath.Join(mount, "cpu", root, "poda")
	var commands []*exec.Cmd
	for _, path := range []string{".", "container"} {
		cmd := exec.Command("sleep", "60")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
		commands = append(commands, cmd)
		// Neither process 1 nor this process nor one of another namespace must be killed.
		write(t, filepath.Join(dir, path, "cgroup.procs"), "0\n1\n"+strconv.Itoa(os.Getpid())+"\n"+strconv.Itoa(cmd.Process.Pid)+"\n")
		write(t, filepath.Join(dir, path, "cgroup.kill", "file"), "") // cannot be written
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := c.Remove(ctx, "a"); !errors.Is(err, cgroup.ErrBusy) {
		t.Errorf("got %v", err)
	}
	for _, cmd := range commands {
		err := cmd.Wait()
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.String() != "signal: killed" {
			t.Errorf("a process ended with %v", err)
		}
	}
}

func TestKillAtOnce(t *testing.T) {
	mount := fakeMount(t, true, "cpu")
	c := newTree(t, mount, cgroup.Options{})
	file := filepath.Join(mount, root, "poda", "cgroup.kill")
	write(t, file, "")
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := c.Remove(ctx, "a"); !errors.Is(err, cgroup.ErrBusy) {
		t.Errorf("got %v", err)
	}
	files(t, filepath.Dir(file), map[string]string{"cgroup.kill": "1"})
}

// A pod's cgroup that is up to date is left alone; it is made again if it is missing or its limits change.
func TestEnsureAgain(t *testing.T) {
	mount := fakeMount(t, false, "cpu", "memory", "pids")
	c := newTree(t, mount, cgroup.Options{PodPids: 7})
	limit := filepath.Join(mount, "pids", root, "burstable/poda/pids.max")
	ensure := func(pod *corev1.Pod) string {
		t.Helper()
		parent, err := c.Ensure(t.Context(), pod)
		if err != nil {
			t.Fatal(err)
		}
		return parent
	}
	touched := func(pod *corev1.Pod) bool {
		t.Helper()
		write(t, limit, "as it was")
		ensure(pod)
		data, err := os.ReadFile(limit)
		if err != nil {
			t.Fatal(err)
		}
		return string(data) != "as it was"
	}
	of := func(requests, limits corev1.ResourceList) *corev1.Pod {
		return pod("a", container("c", requests, limits))
	}
	first := burstable("a")
	if parent := ensure(first); parent != root+"/burstable/poda" {
		t.Errorf("parent %s", parent)
	}
	files(t, filepath.Dir(limit), map[string]string{"pids.max": "7"})
	if touched(first) || touched(burstable("a")) {
		t.Error("what is as it should be is made again")
	}
	for name, change := range map[string]*corev1.Pod{
		"memory":       of(list("cpu", "250m"), list("cpu", "1", "memory", "128Mi")),
		"quota":        of(list("cpu", "250m"), list("cpu", "2", "memory", "64Mi")),
		"no quota":     of(list("cpu", "250m"), list("memory", "64Mi")),
		"shares":       of(list("cpu", "500m"), list("cpu", "1", "memory", "64Mi")),
		"huge pages":   of(list("cpu", "250m", "hugepages-2Mi", "2Mi"), list("cpu", "1", "memory", "64Mi", "hugepages-2Mi", "2Mi")),
		"other pages":  of(list("cpu", "250m", "hugepages-2Mi", "4Mi"), list("cpu", "1", "memory", "64Mi", "hugepages-2Mi", "4Mi")),
		"no resources": of(list("memory", "1"), nil),
	} {
		if !touched(change) || touched(change) {
			t.Errorf("%s: made again or not", name)
		}
		if !touched(first) {
			t.Errorf("%s: not made as before", name)
		}
	}
	for _, hierarchy := range []string{"cpu", "memory", "pids"} {
		if err := os.RemoveAll(filepath.Join(mount, hierarchy, root, "burstable/poda")); err != nil {
			t.Fatal(err)
		}
	}
	ensure(first)
	files(t, filepath.Dir(limit), map[string]string{"pids.max": "7"})
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if parent, err := c.Ensure(over, first); !errors.Is(err, context.Canceled) || parent != "" {
		t.Errorf("for nobody: %s, %v", parent, err)
	}
}

// A cgroup that cannot be made is an error that names it, and is retried the next time with all its parents.
func TestCgroupsThatCannotBeMade(t *testing.T) {
	for name, unified := range map[string]bool{"v1": false, "v2": true} {
		t.Run(name, func(t *testing.T) {
			mount := fakeMount(t, unified, "cpu")
			c := newTree(t, mount, cgroup.Options{})
			base := filepath.Join(mount, "cpu", root)
			if unified {
				base = filepath.Join(mount, root)
				for _, dir := range []string{".", "burstable", "besteffort", "besteffort/poda"} {
					write(t, filepath.Join(base, dir, "cgroup.controllers"), "cpu")
				}
				if err := os.RemoveAll(base); err != nil {
					t.Fatal(err)
				}
			}
			write(t, base, "a file") // in the way of everything
			fails := func(what func() error, want string) {
				t.Helper()
				if err := what(); err == nil || !strings.HasPrefix(err.Error(), want) {
					t.Errorf("got %v, not %s", err, want)
				}
			}
			ensure := func() error { _, err := c.Ensure(t.Context(), bestEffort("a")); return err }
			fails(func() error { return c.Prepare(t.Context()) }, "making cgroup "+root+"/burstable: ")
			fails(func() error { return c.Weigh(nil) }, "making cgroup "+root+"/burstable: ")
			fails(ensure, "making cgroup "+root+"/burstable: ")
			if err := os.Remove(base); err != nil {
				t.Fatal(err)
			}
			if unified {
				for _, dir := range []string{".", "burstable", "besteffort"} {
					write(t, filepath.Join(base, dir, "cgroup.controllers"), "cpu")
				}
			}
			if err := c.Prepare(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := os.RemoveAll(filepath.Join(base, "besteffort")); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(base, "besteffort"), "a file")
			fails(ensure, "making cgroup "+root+"/besteffort")
		})
	}
}

// A class that cannot be limited does not prevent pods from running; a pod that cannot be limited does not run.
func TestCgroupsThatCannotBeLimited(t *testing.T) {
	mount := fakeMount(t, false, "cpu", "memory")
	var log strings.Builder
	c := newTree(t, mount, cgroup.Options{Logger: logTo(&log), Offered: list("memory", "1Gi")})
	directories(t, mount, "memory"+root+"/memory.limit_in_bytes", "memory"+root+"/podg/memory.limit_in_bytes", "cpu"+root+"/burstable")
	if err := c.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := log.String(); strings.Count(got, `msg="limiting a class of pods failed" cgroup=`+root+" ") != 1 || strings.Count(got, "\n") != 1 {
		t.Errorf("logged %s", got)
	}
	if parent, err := c.Ensure(t.Context(), guaranteed("g")); err == nil || parent != "" || !strings.HasPrefix(err.Error(), "limiting cgroup "+root+"/podg: ") {
		t.Errorf("%s, %v", parent, err)
	}
	// Writing the weight of a class is retried after a failure.
	shares := filepath.Join(mount, "cpu", root, "burstable", "cpu.shares")
	if err := os.Remove(shares); err != nil {
		t.Fatal(err)
	}
	directories(t, mount, "cpu"+root+"/burstable/cpu.shares")
	log.Reset()
	if err := c.Weigh([]*corev1.Pod{burstable("a")}); err != nil {
		t.Fatal(err)
	}
	if got := log.String(); strings.Count(got, `msg="weighing the burstable pods failed"`) != 1 {
		t.Errorf("logged %s", got)
	}
	if err := os.Remove(shares); err != nil {
		t.Fatal(err)
	}
	if err := c.Weigh([]*corev1.Pod{burstable("a")}); err != nil {
		t.Fatal(err)
	}
	files(t, filepath.Dir(shares), map[string]string{"cpu.shares": "256"})
	write(t, shares, "as it was")
	if err := c.Weigh([]*corev1.Pod{burstable("a")}); err != nil {
		t.Fatal(err)
	}
	files(t, filepath.Dir(shares), map[string]string{"cpu.shares": "as it was"})
	if err := c.Remove(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	files(t, filepath.Dir(shares), map[string]string{"cpu.shares": "2"})
}

// Only mounted directories count as hierarchies.
func TestOtherDirectories(t *testing.T) {
	mount := fakeMount(t, false, "cpu")
	directories(t, mount, "memory")            // nothing is mounted here
	write(t, filepath.Join(mount, "pids"), "") // nor is this a directory
	if err := os.Symlink("cpu", filepath.Join(mount, "cpuacct")); err != nil {
		t.Fatal(err)
	}
	c := newTree(t, mount, cgroup.Options{})
	if got := c.Dirs(root); !slices.Equal(got, []string{filepath.Join(mount, "cpu", root)}) {
		t.Errorf("hierarchies %v", got)
	}
	if c.Machine().Swap {
		t.Error("swap is limited without a controller")
	}
	for file, want := range map[string]bool{"memory/memory.limit_in_bytes": false, "memory/memory.memsw.limit_in_bytes": true} {
		mount := fakeMount(t, false, "memory")
		write(t, filepath.Join(mount, file), "1")
		if got := newTree(t, mount, cgroup.Options{}).Machine(); got.Swap != want || got.Unified || got.OOMGroup {
			t.Errorf("%s: %+v", file, got)
		}
	}
}

// Without a number as its limit, memory is unlimited.
func TestMemoryLimits(t *testing.T) {
	mount := fakeMount(t, true, "memory")
	dir := filepath.Join(mount, root)
	c := newTree(t, mount, cgroup.Options{})
	write(t, filepath.Join(dir, "memory.current"), "1000\n")
	for limit, available := range map[string]uint64{"max": 0, "1152921504606846976": 0, "1152921504606846975": 1<<60 - 1001, "many": 0, "18446744073709551616": 0} {
		write(t, filepath.Join(dir, "memory.max"), limit)
		if got, err := c.Memory(time.Unix(1, 0)); err != nil || got.Available != available || got.WorkingSet != 1000 {
			t.Errorf("%s: %+v, %v", limit, got, err)
		}
	}
	write(t, filepath.Join(dir, "memory.current"), "many")
	if _, err := c.Memory(time.Unix(1, 0)); !errors.Is(err, cgroup.ErrUnsupported) {
		t.Errorf("got %v", err)
	}
}

// Enabled controllers are not enabled again, and those that the kernel refuses are reported once.
func TestHandingOn(t *testing.T) {
	mount := fakeMount(t, true, "cpu", "memory", "pids")
	for _, dir := range []string{"", "burstable", "besteffort", "besteffort/poda", "besteffort/podb"} {
		write(t, filepath.Join(mount, root, dir, "cgroup.controllers"), "cpu memory pids")
	}
	write(t, filepath.Join(mount, "cgroup.subtree_control"), "cpu memory pids")
	c := newTree(t, mount, cgroup.Options{})
	if err := c.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	files(t, mount, map[string]string{"cgroup.subtree_control": "cpu memory pids"})

	var log strings.Builder
	c = newTree(t, mount, cgroup.Options{Logger: logTo(&log)})
	control := filepath.Join(mount, root, "besteffort", "cgroup.subtree_control")
	if err := os.Remove(control); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	directories(t, mount, root+"/besteffort/cgroup.subtree_control")
	if _, err := c.Ensure(t.Context(), bestEffort("a")); err == nil {
		t.Error("what is handed on cannot be read")
	}
}
