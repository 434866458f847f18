package host_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/node/internal/nodetest"
)

// TestResize: the limits of a running container and of its pod change in the kernel, up and down, and the container
// goes on running; a limit below what is used is refused.
func TestResize(t *testing.T) {
	t.Parallel()
	w := nodetest.Start(t, nodetest.Options{})
	sized := func(cpu, memory string) corev1.ResourceRequirements {
		list := corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}
		return corev1.ResourceRequirements{Requests: list, Limits: list}
	}
	c := nodetest.Sleeper("main")
	c.Resources = sized("100m", "64Mi")
	restarted := nodetest.Sleeper("again")
	restarted.Resources = sized("100m", "64Mi")
	restarted.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: "memory", RestartPolicy: corev1.RestartContainer}}
	w.Create(nodetest.Pod("web", c, restarted))
	pod := w.Ready("web")
	pid := w.PID(pod, "main")
	const completed, failed = "", corev1.PodReasonError
	resize := func(name, cpu, memory, outcome string) *corev1.Pod {
		t.Helper()
		patch := map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": name, "resources": sized(cpu, memory)}}}}
		data, err := json.Marshal(patch)
		w.Check(err)
		_, err = w.Clients.CoreV1().Pods("default").Patch(t.Context(), "web", types.StrategicMergePatchType, data, metav1.PatchOptions{}, "resize")
		w.Check(err)
		return w.Until("web", "resized", func(p *corev1.Pod) bool {
			said := completed
			for _, c := range p.Status.Conditions {
				if c.Type == corev1.PodResizePending || c.Type == corev1.PodResizeInProgress {
					said = string(c.Type) + c.Reason
				}
			}
			return p.Status.ObservedGeneration >= p.Generation && nodetest.IsReady(p) && strings.HasSuffix(said, outcome) && (outcome != completed || said == completed)
		})
	}
	expect := func(memory, podMemory, quota, podQuota int64) {
		t.Helper()
		if got := limitOf(t, pid, "memory", 0); got != memory {
			t.Errorf("the container may use %d bytes, not %d", got, memory)
		}
		if got := limitOf(t, pid, "memory", 1); got != podMemory {
			t.Errorf("the pod may use %d bytes, not %d", got, podMemory)
		}
		if got := limitOf(t, pid, "cpu", 0); got != quota {
			t.Errorf("the container has a quota of %d, not %d", got, quota)
		}
		if got := limitOf(t, pid, "cpu", 1); got != podQuota {
			t.Errorf("the pod has a quota of %d, not %d", got, podQuota)
		}
	}
	expect(64<<20, 128<<20, 10_000, 20_000)
	pod = resize("main", "200m", "96Mi", completed)
	expect(96<<20, 160<<20, 20_000, 30_000)
	if s := pod.Status.ContainerStatuses[1]; s.Name != "main" || s.RestartCount != 0 || s.Resources.Limits.Memory().String() != "96Mi" ||
		s.Resources.Requests.Cpu().String() != "200m" || s.AllocatedResources.Memory().String() != "96Mi" {
		t.Errorf("the status is %+v", s)
	}
	resize("main", "50m", "48Mi", completed)
	expect(48<<20, 112<<20, 5_000, 15_000)
	pod = resize("again", "100m", "80Mi", completed)
	expect(48<<20, 128<<20, 5_000, 15_000)
	if s := pod.Status.ContainerStatuses[0]; s.RestartCount != 1 || s.Resources.Limits.Memory().String() != "80Mi" {
		t.Errorf("the status is %+v", s)
	}
	if now := w.PID(pod, "main"); now != pid {
		t.Error("the container was restarted")
	}
	pod = resize("main", "50m", "1Ki", failed)
	if c := nodetest.Condition(pod, corev1.PodResizeInProgress); c != corev1.ConditionTrue {
		t.Errorf("a limit below use: %v", pod.Status.Conditions)
	}
	expect(48<<20, 128<<20, 5_000, 15_000)
	w.Event("web", "ResizeError", "memory limit (1024) below current usage")

	// A new kubelet carries on: it knows what was given and what is in force.
	w.KillKubelet()
	w.StartKubelet()
	resize("main", "60m", "64Mi", completed)
	expect(64<<20, 144<<20, 6_000, 16_000)
	if now := w.PID(pod, "main"); now != pid {
		t.Error("the container was restarted")
	}
	w.DeleteAll("web")
	w.Clean()
}

// limitOf reads the limit of memory, or the CPU quota, of the cgroup of a process, or of one so many levels above it.
func limitOf(t *testing.T, pid int, controller string, above int) int64 {
	t.Helper()
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		dir, file := "/sys/fs/cgroup", map[string]string{"memory": "memory.max", "cpu": "cpu.max"}[controller]
		switch {
		case len(parts) != 3:
			continue
		case strings.Contains(","+parts[1]+",", ","+controller+","):
			dir, file = "/sys/fs/cgroup/"+controller, map[string]string{"memory": "memory.limit_in_bytes", "cpu": "cpu.cfs_quota_us"}[controller]
		case parts[0] != "0":
			continue
		}
		at := filepath.Join(dir, parts[2])
		for range above {
			at = filepath.Dir(at)
		}
		text, err := os.ReadFile(filepath.Join(at, file))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	t.Fatalf("no limit of %s for process %d", controller, pid)
	return 0
}
