package stats_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/remote"
	"github.com/keelson-dev/keelson/kubelet/cgroup"
	"github.com/keelson-dev/keelson/kubelet/machine"
	"github.com/keelson-dev/keelson/kubelet/stats"
	"github.com/keelson-dev/keelson/node/containerd/containerdtest"
)

// node is a containerd with the cgroups of a node.
type node struct {
	*remote.Runtime
	tree *cgroup.Tree
	logs string
}

func startReal(t testing.TB) node {
	t.Helper()
	daemon := containerdtest.Start(t, containerdtest.Options{})
	found, err := machine.Reader{}.Read()
	if err != nil {
		t.Fatal(err)
	}
	tree, err := cgroup.New("/"+strings.Trim(daemon.CgroupRoot(), "/")+"/kubepods", cgroup.Options{
		MemoryCapacity: int64(found.Memory), PodPids: 100, Offered: found.Capacity(110, 0),
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := remote.New(daemon.Socket(), remote.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return node{r, tree, t.TempDir()}
}

// run starts a pod with a container "c" that runs a script, and returns the container's id.
func (r node) run(ctx context.Context, t testing.TB, pod *corev1.Pod, script string) (sandbox, container string) {
	t.Helper()
	parent, err := r.tree.Ensure(ctx, pod)
	if err != nil {
		t.Fatal(err)
	}
	uid := string(pod.UID)
	labels := map[string]string{cri.LabelPodUID: uid, cri.LabelPodName: pod.Name, cri.LabelPodNamespace: pod.Namespace}
	config := cri.SandboxConfig{
		Metadata: cri.SandboxMetadata{Name: pod.Name, UID: uid, Namespace: pod.Namespace}, Hostname: pod.Name, Labels: labels,
		LogDirectory: filepath.Join(r.logs, pod.Namespace+"_"+pod.Name+"_"+uid), CgroupParent: parent,
	}
	if err := os.MkdirAll(filepath.Join(config.LogDirectory, "c"), 0o755); err != nil {
		t.Fatal(err)
	}
	sandbox, err = r.RunPodSandbox(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := r.RemovePodSandbox(ctx, sandbox); err != nil {
			t.Error(err)
		}
		if err := r.tree.Remove(ctx, pod.UID); err != nil {
			t.Error(err)
		}
		for _, dir := range r.tree.Dirs(parent) {
			if _, err := os.Stat(dir); err == nil {
				t.Errorf("%s is left", dir)
			}
		}
	})
	c := &pod.Spec.Containers[0]
	container, err = r.CreateContainer(ctx, sandbox, cri.ContainerConfig{
		Metadata: cri.ContainerMetadata{Name: "c"}, Image: cri.ImageSpec{Image: containerdtest.Busybox}, Labels: labels,
		Process: cri.Process{Command: []string{"sh", "-c", script}}, LogPath: "c/0.log", Resources: r.tree.Resources(pod, c),
	}, config)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.StartContainer(ctx, container); err != nil {
		t.Fatal(err)
	}
	return sandbox, container
}

func newPod(name string, requests, limits corev1.ResourceList) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name)},
		Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: "c", Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}},
		}},
	}
}

// eventually polls a condition for a minute.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for range 600 {
		if so() {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("not within a minute: %s", what)
}

// TestContainerd: the statistics of a real runtime for real containers in our cgroups.
func TestContainerd(t *testing.T) {
	r := startReal(t)
	ctx := t.Context()
	cpu := func(q string) corev1.ResourceList {
		return corev1.ResourceList{"cpu": resource.MustParse(q), "memory": resource.MustParse("64Mi")}
	}
	busy := newPod("busy", cpu("250m"), cpu("500m"))
	_, container := r.run(ctx, t, busy, "dd if=/dev/zero of=/written bs=1M count=5; echo told; while :; do :; done")
	r.run(ctx, t, newPod("idle", nil, nil), "sleep 1000")

	c, err := stats.New("node", r, machine.Reader{}, stats.Options{
		Images: r, NodeDir: r.logs, LogDir: r.logs, DiskAge: time.Millisecond, PodsMemory: r.tree.Memory, MaxProcesses: 1000,
	})
	if err != nil {
		t.Fatal(err)
	}
	var summary *v1alpha1.Summary
	look := func() (busy, idle *v1alpha1.PodStats) {
		if summary, err = c.Summary(ctx); err != nil {
			t.Fatal(err)
		}
		if len(summary.Pods) != 2 || summary.Pods[0].PodRef.Name != "busy" || len(summary.Pods[0].Containers) != 1 {
			t.Fatalf("pods %+v", summary.Pods)
		}
		return &summary.Pods[0], &summary.Pods[1]
	}
	eventually(t, "rates and sizes are known", func() bool {
		b, i := look()
		c := b.Containers[0]
		return c.CPU != nil && c.CPU.UsageNanoCores != nil && *c.CPU.UsageNanoCores > 100e6 && c.Memory != nil && *c.Memory.WorkingSetBytes > 0 &&
			c.Rootfs != nil && *c.Rootfs.UsedBytes >= 5<<20 && c.Logs != nil && *c.Logs.UsedBytes > 0 &&
			b.CPU != nil && b.CPU.UsageNanoCores != nil && *b.CPU.UsageNanoCores > 100e6 && b.Network != nil && i.Memory != nil
	})
	b, i := look()
	// Its limit is a quota per 100 ms, which a short window may exceed, so checkCgroups checks the quota instead. It
	// has one thread; on a busy machine there is a delay between a reading and its timestamp.
	if n, all := *b.Containers[0].CPU.UsageNanoCores, uint64(1e9); n > 3*all {
		t.Errorf("a container of one thread uses %d n of a CPU", n)
	}
	if b.Memory.AvailableBytes == nil || *b.Memory.AvailableBytes > 64<<20 || i.Memory.AvailableBytes != nil && *i.Memory.AvailableBytes < 1<<40 {
		t.Errorf("available memory: %+v, %+v", b.Memory, i.Memory)
	}
	if *b.EphemeralStorage.UsedBytes < 5<<20 || b.ProcessStats == nil {
		t.Errorf("busy: %+v", b)
	}
	whole := summary.Node
	if whole.Fs == nil || whole.Runtime == nil || whole.Runtime.ImageFs == nil || *whole.Runtime.ImageFs.UsedBytes == 0 || whole.CPU.UsageNanoCores == nil {
		t.Errorf("node: %+v", whole)
	}
	if len(whole.SystemContainers) != 1 || *whole.SystemContainers[0].Memory.WorkingSetBytes == 0 {
		t.Errorf("all pods: %+v", whole.SystemContainers)
	}
	checkCgroups(t, r, busy, container)
}

// checkCgroups checks the limits in the kernel.
func checkCgroups(t *testing.T, r node, pod *corev1.Pod, container string) {
	t.Helper()
	files := map[string]string{
		"cpu.shares": "256", "cpu.cfs_quota_us": "50000", "memory.limit_in_bytes": "67108864", "pids.max": "100",
	}
	if r.tree.Unified() {
		files = map[string]string{"cpu.weight": "35", "cpu.max": "50000 100000", "memory.max": "67108864", "pids.max": "100"}
	}
	for _, path := range []string{r.tree.PodPath(pod), filepath.Join(r.tree.PodPath(pod), container)} {
		for name, want := range files {
			if name == "pids.max" && strings.HasSuffix(path, container) {
				continue // the pod's is enough
			}
			found := false
			for _, dir := range r.tree.Dirs(path) {
				data, err := os.ReadFile(filepath.Join(dir, name))
				if err != nil {
					continue
				}
				found = true
				if got := strings.TrimSpace(string(data)); got != want {
					t.Errorf("%s of %s is %s, not %s", name, path, got, want)
				}
			}
			if !found {
				t.Errorf("%s of %s is missing", name, path)
			}
		}
	}
}

// TestCgroupOfRunningPod: removing the cgroup of a pod ends it, whatever its runtime's state.
func TestCgroupOfRunningPod(t *testing.T) {
	r := startReal(t)
	pod := newPod("doomed", nil, nil)
	sandbox, container := r.run(t.Context(), t, pod, "trap '' TERM; while :; do sleep 1; done")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	begun := time.Now()
	if err := r.tree.Remove(ctx, pod.UID); err != nil {
		t.Fatal(err)
	}
	t.Logf("removed with all that ran in it in %s", time.Since(begun))
	eventually(t, "the runtime notices", func() bool {
		c, err := r.ContainerStatus(ctx, container)
		if err != nil {
			t.Fatal(err)
		}
		s, err := r.SandboxStatus(ctx, sandbox)
		if err != nil {
			t.Fatal(err)
		}
		return c.State == cri.ContainerExited && s.State == cri.SandboxNotReady
	})
}

func BenchmarkSummary(b *testing.B) {
	r := startReal(b)
	for n := range 10 {
		r.run(b.Context(), b, newPod(fmt.Sprint("pod-", n), nil, nil), "sleep 1000")
	}
	c, err := stats.New("node", r, machine.Reader{}, stats.Options{Images: r, NodeDir: r.logs, LogDir: r.logs})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := c.Summary(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
