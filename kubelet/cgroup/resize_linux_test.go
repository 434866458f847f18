package cgroup_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet/cgroup"
)

// TestLimits: the limits in force are read and set in the files of either version.
func TestLimits(t *testing.T) {
	small := pod("a", container("c", list("cpu", "1", "memory", "64Mi"), list("cpu", "2", "memory", "128Mi")))
	large := pod("a", container("c", list("cpu", "2", "memory", "64Mi"), list("cpu", "4", "memory", "256Mi")))
	const at = "burstable/poda"
	for name, tt := range map[string]struct {
		mount           string
		cpu, memory     string // directories of these controllers
		unlimited       map[string]string
		shares, limited map[string]string
	}{
		"v1": {fakeMount(t, false, "cpu", "memory"), "cpu", "memory",
			map[string]string{"cpu.cfs_quota_us": "-1", "memory.limit_in_bytes": "9223372036854771712"},
			map[string]string{"cpu.shares": "2048"}, map[string]string{"cpu.cfs_quota_us": "400000", "memory.limit_in_bytes": "268435456"}},
		"v2": {unified(t, "cpu memory", at), "", "",
			map[string]string{"cpu.max": "max 100000", "memory.max": "max"},
			map[string]string{"cpu.weight": "174"}, map[string]string{"cpu.max": "400000 100000", "memory.max": "268435456"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTree(t, tt.mount, cgroup.Options{})
			dir := func(file string) string {
				if len(file) > 3 && file[:3] == "cpu" {
					return filepath.Join(tt.mount, tt.cpu, root, at)
				}
				return filepath.Join(tt.mount, tt.memory, root, at)
			}
			expect := func(want map[string]string) {
				t.Helper()
				for file, value := range want {
					files(t, dir(file), map[string]string{file: value})
				}
			}
			if _, _, err := c.Limits(t.Context(), bestEffort("x")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a missing cgroup: %v", err)
			}
			ensure(t, c, small)
			now, want, err := c.Limits(t.Context(), large)
			if err != nil || !reflect.DeepEqual(want, cri.Resources{CPUShares: 2048, CPUQuota: 400_000, CPUPeriod: 100_000, MemoryLimit: 256 << 20}) {
				t.Errorf("want %+v, %v", want, err)
			}
			if now.CPUQuota != 200_000 || now.CPUPeriod != 100_000 || now.MemoryLimit != 128<<20 || now.CPUShares < 1000 || now.CPUShares > 1040 {
				t.Errorf("now %+v", now)
			}
			for _, set := range []cri.Resources{{CPUShares: want.CPUShares}, {CPUQuota: want.CPUQuota, CPUPeriod: want.CPUPeriod}, {MemoryLimit: want.MemoryLimit}} {
				if err := c.Limit(t.Context(), large, set); err != nil {
					t.Fatal(err)
				}
				if set.CPUShares != 0 {
					expect(tt.shares)
				}
			}
			expect(tt.limited)
			// What was set this way is not set again.
			for file := range tt.limited {
				write(t, filepath.Join(dir(file), file), "as it was")
			}
			ensure(t, c, large)
			for file := range tt.limited {
				if data, _ := os.ReadFile(filepath.Join(dir(file), file)); string(data) != "as it was" {
					t.Errorf("%s was set again", file)
				}
			}
			for file, value := range tt.unlimited {
				write(t, filepath.Join(dir(file), file), value)
			}
			if now, _, err := c.Limits(t.Context(), large); err != nil || now.CPUQuota != -1 || now.MemoryLimit != -1 {
				t.Errorf("without limits: %+v, %v", now, err)
			}
			over, cancel := context.WithCancel(t.Context())
			cancel()
			if _, _, err := c.Limits(over, large); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			if err := c.Limit(over, large, cri.Resources{CPUShares: 5}); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		})
	}
	c := newTree(t, fakeMount(t, true, "cpu"), cgroup.Options{})
	wrong := &corev1.Pod{}
	if _, _, err := c.Limits(t.Context(), wrong); !errors.Is(err, cgroup.ErrInvalid) {
		t.Errorf("got %v", err)
	}
	if err := c.Limit(t.Context(), wrong, cri.Resources{CPUShares: 5}); !errors.Is(err, cgroup.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}

// TestLimitWeighs: a pod that is resized weighs as much in its class as it requests.
func TestLimitWeighs(t *testing.T) {
	mount := fakeMount(t, false, "cpu")
	c := newTree(t, mount, cgroup.Options{})
	ensure(t, c, pod("a", container("c", list("cpu", "1"), nil)))
	class := filepath.Join(mount, "cpu", root, "burstable")
	files(t, class, map[string]string{"cpu.shares": "1024"})
	large := pod("a", container("c", list("cpu", "3"), nil))
	if err := c.Limit(t.Context(), large, cri.Resources{CPUShares: 3072}); err != nil {
		t.Fatal(err)
	}
	files(t, class, map[string]string{"cpu.shares": "3072"})
	if err := c.Limit(t.Context(), pod("b", container("c", list("cpu", "1"), nil)), cri.Resources{CPUShares: 3072}); err == nil {
		files(t, class, map[string]string{"cpu.shares": "3072"})
	}
}

// TestExclusive: the CPU limit of a pod with CPUs to itself is not enforced.
func TestExclusive(t *testing.T) {
	mount := fakeMount(t, false, "cpu", "memory")
	c := newTree(t, mount, cgroup.Options{Exclusive: func(uid types.UID) bool { return uid == "own" }})
	ensure(t, c, guaranteed("own"), guaranteed("other"))
	for name, want := range map[string]string{"podown": "-1", "podother": "50000"} {
		files(t, filepath.Join(mount, "cpu", root, name), map[string]string{"cpu.cfs_quota_us": want})
	}
	if _, want, err := c.Limits(t.Context(), guaranteed("own")); err != nil || want.CPUQuota != -1 {
		t.Errorf("%+v, %v", want, err)
	}
}
