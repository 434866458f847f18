package garbage_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/remote"
	"github.com/keelson-dev/keelson/kubelet/garbage"
	"github.com/keelson-dev/keelson/kubelet/machine"
	"github.com/keelson-dev/keelson/node/containerd/containerdtest"
)

// pods is a kubelet that knows all its pods; those in the list are gone.
type pods []string

func (pods) Known() bool               { return true }
func (p pods) Gone(uid types.UID) bool { return slices.Contains(p, string(uid)) }
func (pods) Ended(types.UID) bool      { return false }

// TestContainerd: what is in use is recognised in a real runtime's answers.
func TestContainerd(t *testing.T) {
	daemon := containerdtest.Start(t, containerdtest.Options{})
	r, err := remote.New(daemon.Socket(), remote.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	ctx, logs := t.Context(), t.TempDir()
	run := func(uid, script string) (sandbox string) {
		t.Helper()
		labels := map[string]string{cri.LabelPodUID: uid, cri.LabelContainerName: "c"}
		config := cri.SandboxConfig{
			Metadata: cri.SandboxMetadata{Name: uid, UID: uid, Namespace: "default"}, Labels: labels, Hostname: uid,
			LogDirectory: filepath.Join(logs, "default_"+uid+"_"+uid), CgroupParent: daemon.CgroupRoot() + "/pod" + uid,
		}
		if err := os.MkdirAll(config.LogDirectory, 0o755); err != nil {
			t.Fatal(err)
		}
		sandbox, err := r.RunPodSandbox(ctx, config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			if err := r.RemovePodSandbox(ctx, sandbox); err != nil {
				t.Error(err)
			}
		})
		container, err := r.CreateContainer(ctx, sandbox, cri.ContainerConfig{
			Metadata: cri.ContainerMetadata{Name: "c"}, Image: cri.ImageSpec{Image: containerdtest.Busybox}, Labels: labels,
			Process: cri.Process{Command: []string{"sh", "-c", script}}, LogPath: "c.log",
		}, config)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.StartContainer(ctx, container); err != nil {
			t.Fatal(err)
		}
		return sandbox
	}
	run("kept", "sleep 1000")
	if err := r.StopPodSandbox(ctx, run("gone", "sleep 1000")); err != nil {
		t.Fatal(err)
	}
	// With these thresholds any disk is too full, until everything unused is removed.
	greedy := garbage.Options{
		Images: &garbage.ImagePolicy{}, LogDir: logs,
		Disk: func(string) (machine.Filesystem, error) {
			return machine.Filesystem{Capacity: 1 << 20, Available: 1<<20 - 1}, nil
		},
	}
	c, err := garbage.New(r, pods{"gone"}, greedy)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.CollectContainers(ctx); err != nil {
		t.Fatal(err)
	}
	left := func() (out []string) {
		t.Helper()
		sandboxes, err := r.ListSandboxes(ctx, cri.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range sandboxes {
			out = append(out, s.Metadata.UID)
		}
		containers, err := r.ListContainers(ctx, cri.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range containers {
			out = append(out, c.Labels[cri.LabelPodUID])
		}
		return out
	}
	if got := strings.Join(left(), " "); got != "kept kept" {
		t.Errorf("left: %s", got)
	}
	if entries, err := os.ReadDir(logs); err != nil || len(entries) != 1 || entries[0].Name() != "default_kept_kept" {
		t.Errorf("logs: %v, %v", entries, err)
	}

	images := func() (names []string) {
		t.Helper()
		list, err := r.ListImages(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, image := range list {
			names = append(names, image.Tags...)
		}
		return names
	}
	before := images()
	if err := c.ReclaimImages(ctx); err != nil {
		t.Fatal(err)
	}
	if after := images(); len(before) < 2 || !slices.Equal(after, before) {
		t.Errorf("images that are used, or pinned, went: of %v are left %v", before, after)
	}
	c, err = garbage.New(r, pods{"gone", "kept"}, greedy)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.StopPodSandbox(ctx, sandboxOf(ctx, t, r, "kept")); err != nil {
		t.Fatal(err)
	}
	if err := c.CollectContainers(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.CollectImages(ctx); err != nil {
		t.Fatal(err)
	}
	if after := images(); len(after) == 0 || slices.ContainsFunc(after, func(name string) bool { return !strings.Contains(name, "pause") }) {
		t.Errorf("images that nobody uses are left: %v", after)
	}
}

func sandboxOf(ctx context.Context, t *testing.T, r *remote.Runtime, uid string) string {
	t.Helper()
	list, err := r.ListSandboxes(ctx, cri.Filter{Labels: map[string]string{cri.LabelPodUID: uid}})
	if err != nil || len(list) != 1 {
		t.Fatalf("sandboxes of %s: %v, %v", uid, list, err)
	}
	return list[0].ID
}
