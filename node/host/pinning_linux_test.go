package host_test

import (
	"encoding/json"
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
	"k8s.io/utils/cpuset"

	hardware "github.com/keelson-dev/keelson/kubelet/machine"
	"github.com/keelson-dev/keelson/kubelet/pinning"
	"github.com/keelson-dev/keelson/node/host"
	"github.com/keelson-dev/keelson/node/internal/nodetest"
)

// guaranteed is a container that requests so many CPUs.
func guaranteed(name string, cpus int) corev1.Container {
	c := nodetest.Sleeper(name)
	list := corev1.ResourceList{"cpu": *resource.NewQuantity(int64(cpus), resource.DecimalSI), "memory": resource.MustParse("64Mi")}
	c.Resources = corev1.ResourceRequirements{Requests: list, Limits: list}
	return c
}

// allowed are the CPUs on which a process may run.
func allowed(t *testing.T, pid int) cpuset.CPUSet {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if list, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
			set, err := cpuset.Parse(strings.TrimSpace(list))
			if err != nil {
				t.Fatal(err)
			}
			return set
		}
	}
	t.Fatalf("no CPUs in the status of process %d", pid)
	return cpuset.New()
}

// TestExclusiveCPUs: a container of a guaranteed pod has its CPU to itself, in the kernel. Those of other pods leave it, and come
// back when it ends. A new kubelet changes nothing.
func TestExclusiveCPUs(t *testing.T) {
	t.Parallel()
	list, _, err := hardware.Reader{}.Topology()
	if err != nil {
		t.Fatal(err)
	}
	all := cpuset.New()
	for _, c := range list {
		all = all.Union(cpuset.New(c.ID))
	}
	if all.Size() < 2 || !all.Equals(allowed(t, os.Getpid())) {
		unavailable := t.Skip
		if os.Getenv("CI") == "true" {
			unavailable = t.Fatal
		}
		unavailable("the machine has a single CPU, or the test may not use all")
	}
	reserved := cpuset.New(all.List()[0])
	w := nodetest.Start(t, nodetest.Options{Pinning: host.Pinning{
		Policies: pinning.Settings{CPUs: pinning.CPUSettings{Policy: pinning.CPUsExclusive, Reserved: reserved, Period: 100 * time.Millisecond}},
	}})
	run := func(name string, c corev1.Container) *corev1.Pod {
		w.Create(nodetest.Pod(name, c))
		return w.Ready(name)
	}
	shared := w.PID(run("shared", nodetest.Sleeper("main")), "main")
	if got := allowed(t, shared); !got.Equals(all) {
		t.Errorf("a container that shares has CPUs %s", got)
	}
	own := run("own", guaranteed("main", 1))
	pid := w.PID(own, "main")
	mine := allowed(t, pid)
	if mine.Size() != 1 || !mine.Intersection(reserved).IsEmpty() {
		t.Fatalf("the container has CPUs %s", mine)
	}
	if container, pod := limitOf(t, pid, "cpu", 0), limitOf(t, pid, "cpu", 1); container != -1 || pod != -1 {
		t.Errorf("quotas are enforced: %d, %d", container, pod)
	}
	until := func(want cpuset.CPUSet) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !allowed(t, shared).Equals(want); {
			if time.Now().After(end) {
				t.Fatalf("a container that shares has CPUs %s, not %s", allowed(t, shared), want)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	until(all.Difference(mine))

	bound := nodetest.Pod("more", guaranteed("main", all.Size()-1))
	bound.Spec.NodeName = own.Spec.NodeName
	w.Create(bound)
	more := w.Until("more", "refused", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
	want := fmt.Sprintf("Allocate failed due to not enough cpus available to satisfy request: requested=%d, available=%d, which is unexpected", all.Size()-1, all.Size()-2)
	if more.Status.Reason != "UnexpectedAdmissionError" || !strings.Contains(more.Status.Message, want) {
		t.Errorf("more CPUs: %s: %s", more.Status.Reason, more.Status.Message)
	}

	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "main", "resources": map[string]any{
		"requests": map[string]any{"cpu": "500m"}, "limits": map[string]any{"cpu": "500m"},
	}}}}})
	w.Check(err)
	_, err = w.Clients.CoreV1().Pods("default").Patch(t.Context(), "own", types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "resize")
	w.Check(err)
	w.Event("own", "ResizeInfeasible", `Resize is infeasible for Guaranteed Pods alongside CPU Manager policy \"static\"`)

	w.KillKubelet()
	data, err := os.ReadFile(filepath.Join(w.Dir, "kubelet", "cpu_manager_state"))
	if err != nil || !strings.Contains(string(data), fmt.Sprintf(`"entries":{%q:{"main":%q}}`, own.UID, mine)) {
		t.Errorf("the file has %s, %v", data, err)
	}
	w.StartKubelet()
	if again := w.PID(run("later", nodetest.Sleeper("main")), "main"); !allowed(t, again).Equals(all.Difference(mine)) {
		t.Errorf("a later container has CPUs %s", allowed(t, again))
	}
	if got := allowed(t, pid); !got.Equals(mine) {
		t.Errorf("with a new kubelet the container has CPUs %s, not %s", got, mine)
	}
	w.Delete("own")
	until(all)
	w.DeleteAll("own", "more", "shared", "later")
}
