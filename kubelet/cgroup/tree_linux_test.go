package cgroup_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/kubelet"
	"github.com/keelson-dev/keelson/kubelet/cgroup"
)

var _ kubelet.Cgroups = (*cgroup.Tree)(nil)

// tree makes a tree of its own on the machine, which the test removes.
func tree(t testing.TB, mount string, o cgroup.Options) *cgroup.Tree {
	t.Helper()
	unavailable := t.Skipf
	if os.Getenv("CI") == "true" {
		unavailable = t.Fatalf
	}
	if os.Getuid() != 0 {
		unavailable("cgroups are root's")
	}
	o.Mount = mount
	root := fmt.Sprintf("/keelson-test-%d-%d/kubepods", os.Getpid(), time.Now().UnixNano())
	c, err := cgroup.New(root, o)
	if err != nil {
		unavailable("%v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := c.RemoveAll(ctx); err != nil {
			t.Error(err)
		}
		for _, dir := range append(c.Dirs(root), c.Dirs(filepath.Dir(root))...) {
			if _, err := os.Stat(dir); err == nil {
				t.Errorf("%s is left", dir)
			}
		}
	})
	return c
}

// mounts returns the cgroup mounts of this machine: its own, and with v1 also the unified hierarchy beside it, which
// has no controllers but otherwise works like v2.
func mounts() map[string]string {
	out := map[string]string{"default": ""}
	const hybrid = "/sys/fs/cgroup/unified"
	if _, err := os.Stat(filepath.Join(hybrid, "cgroup.controllers")); err == nil {
		out["unified"] = hybrid
	}
	return out
}

func TestEnsureAndRemove(t *testing.T) {
	for name, mount := range mounts() {
		t.Run(name, func(t *testing.T) {
			c := tree(t, mount, cgroup.Options{PodPids: 100})
			ctx := t.Context()
			for _, pod := range []*corev1.Pod{guaranteed("a"), burstable("b"), bestEffort("c")} {
				parent, err := c.Ensure(ctx, pod)
				if err != nil {
					t.Fatal(err)
				}
				if parent != c.PodPath(pod) || !strings.HasPrefix(parent, c.Root()+"/") {
					t.Errorf("parent %s", parent)
				}
				if again, err := c.Ensure(ctx, pod); err != nil || again != parent {
					t.Errorf("again: %s, %v", again, err)
				}
				if !thereIs(c.Dirs(parent)) {
					t.Errorf("no directory for %s", parent)
				}
				// A second tree stands in for a restarted kubelet.
				second, err := cgroup.New(c.Root(), cgroup.Options{Mount: mount})
				if err != nil {
					t.Fatal(err)
				}
				orphans, err := second.Orphans(func(types.UID) bool { return false })
				if err != nil || len(orphans) != 1 || orphans[0] != pod.UID {
					t.Errorf("orphans %v, %v", orphans, err)
				}
				if orphans, _ = second.Orphans(func(uid types.UID) bool { return uid == pod.UID }); len(orphans) != 0 {
					t.Errorf("live pods are orphans: %v", orphans)
				}
				if err := second.Remove(ctx, pod.UID); err != nil {
					t.Fatal(err)
				}
				if thereIs(c.Dirs(parent)) {
					t.Errorf("%s is left", parent)
				}
				if err := second.Remove(ctx, pod.UID); err != nil {
					t.Errorf("removing nothing: %v", err)
				}
				if _, err := c.Ensure(ctx, pod); err != nil || !thereIs(c.Dirs(parent)) {
					t.Errorf("a cgroup that somebody took away is not made again: %v", err)
				}
				if err := c.Remove(ctx, pod.UID); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func thereIs(dirs []string) bool {
	for _, dir := range dirs {
		if _, err := os.Stat(dir); err == nil {
			return true
		}
	}
	return false
}

// TestRemoveKills: processes in the cgroups of a pod and its containers are killed.
func TestRemoveKills(t *testing.T) {
	for name, mount := range mounts() {
		t.Run(name, func(t *testing.T) {
			c := tree(t, mount, cgroup.Options{})
			parent, err := c.Ensure(t.Context(), bestEffort("doomed"))
			if err != nil {
				t.Fatal(err)
			}
			var ended []<-chan error
			for _, child := range []string{"", "container", "container/nested"} {
				command := exec.Command("sleep", "1000")
				if err := command.Start(); err != nil {
					t.Fatal(err)
				}
				done := make(chan error, 1)
				go func() { done <- command.Wait() }()
				t.Cleanup(func() { _ = command.Process.Kill() })
				ended = append(ended, done)
				moved := 0
				for _, dir := range c.Dirs(parent) {
					if _, err := os.Stat(dir); err != nil || strings.Contains(dir, "cpuset") {
						continue // cpusets accept no process until they have CPUs
					}
					dir = filepath.Join(dir, child)
					if err := os.MkdirAll(dir, 0o755); err != nil {
						t.Fatal(err)
					}
					procs := filepath.Join(dir, "cgroup.procs")
					if err := os.WriteFile(procs, fmt.Append(nil, command.Process.Pid), 0); err != nil {
						t.Fatal(err)
					}
					moved++
				}
				if moved == 0 {
					t.Fatal("the process is nowhere")
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if err := c.Remove(ctx, "doomed"); err != nil {
				t.Fatal(err)
			}
			if thereIs(c.Dirs(parent)) {
				t.Errorf("%s is left", parent)
			}
			for _, done := range ended {
				if err := <-done; err == nil || err.Error() != "signal: killed" {
					t.Errorf("a process ended by itself: %v", err)
				}
			}
		})
	}
}

func BenchmarkEnsureRemove(b *testing.B) {
	c := tree(b, "", cgroup.Options{PodPids: 100})
	pod := burstable("measured")
	if err := c.Prepare(b.Context()); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := c.Ensure(b.Context(), pod); err != nil {
			b.Fatal(err)
		}
		if err := c.Remove(b.Context(), pod.UID); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEnsureAgain(b *testing.B) {
	c := tree(b, "", cgroup.Options{PodPids: 100})
	pod := burstable("measured")
	if _, err := c.Ensure(b.Context(), pod); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := c.Ensure(b.Context(), pod); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEnsure(b *testing.B) {
	c := tree(b, "", cgroup.Options{PodPids: 100})
	if err := c.Prepare(b.Context()); err != nil {
		b.Fatal(err)
	}
	n := 0
	for b.Loop() {
		pod := burstable(types.UID(fmt.Sprint("pod-", n)))
		n++
		if _, err := c.Ensure(b.Context(), pod); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := c.Remove(b.Context(), pod.UID); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
