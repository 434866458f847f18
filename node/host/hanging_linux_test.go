package host_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/node/internal/nodetest"
)

// forever is a command that does not end.
func forever() *corev1.ExecAction { return &corev1.ExecAction{Command: []string{"sleep", "3600"}} }

// within fails unless a pod that is deleted goes within its grace period of two seconds and the time that a loaded
// machine needs.
func within(t *testing.T, w *nodetest.World, name string, limit time.Duration) {
	t.Helper()
	start := time.Now()
	w.Delete(name)
	w.Gone(name)
	if took := time.Since(start); took > limit {
		t.Errorf("pod %s took %v to go, more than %v", name, took, limit)
	}
}

// TestHooksHang: a hook that does not end holds up its container, but not its pod's end.
func TestHooksHang(t *testing.T) {
	t.Parallel()
	w := nodetest.Start(t, nodetest.Options{})
	post := nodetest.Pod("post", nodetest.Sleeper("c"), nodetest.Sleeper("later"))
	post.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Exec: forever()}}
	pre := nodetest.Pod("pre", nodetest.Sleeper("c"))
	pre.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: forever()}}
	w.Create(post)
	w.Create(pre)
	w.Event("post", "Started", "")
	w.Ready("pre")
	got := w.Until("post", "known", func(p *corev1.Pod) bool { return len(p.Status.ContainerStatuses) == 2 })
	if nodetest.IsReady(got) || got.Status.ContainerStatuses[1].State.Waiting == nil {
		t.Errorf("status while a post-start hook hangs: %+v", got.Status)
	}
	within(t, w, "post", 12*time.Second)
	within(t, w, "pre", 14*time.Second)
	w.Clean()
}

// TestProbesHang: a probe that does not end has failed at its time-out.
func TestProbesHang(t *testing.T) {
	t.Parallel()
	w := nodetest.Start(t, nodetest.Options{})
	probe := func() *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: forever()}, TimeoutSeconds: 1, PeriodSeconds: 1, FailureThreshold: 2}
	}
	live := nodetest.Pod("live", nodetest.Sleeper("c"))
	live.Spec.Containers[0].LivenessProbe = probe()
	ready := nodetest.Pod("ready", nodetest.Sleeper("c"))
	ready.Spec.Containers[0].ReadinessProbe = probe()
	w.Create(live)
	w.Create(ready)
	w.Event("live", "Unhealthy", `Liveness probe failed: command timed out: "sleep 3600" timed out after 1s`)
	w.Event("live", "Killing", "Container c failed liveness probe, will be restarted")
	pod := w.Until("live", "restarted", func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].RestartCount == 1 && p.Status.ContainerStatuses[0].State.Running != nil
	})
	if last := pod.Status.ContainerStatuses[0].LastTerminationState.Terminated; last == nil {
		t.Errorf("the first instance has left no state: %+v", pod.Status.ContainerStatuses[0])
	}
	w.Event("ready", "Unhealthy", `Readiness probe failed: command timed out: "sleep 3600" timed out after 1s`)
	pod = w.Until("ready", "running", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.ContainersReady && (c.Status != corev1.ConditionFalse || c.Reason != "ContainersNotReady" ||
			!strings.Contains(c.Message, "containers with unready status: [c]")) {
			t.Errorf("condition %+v", c)
		}
	}
	within(t, w, "live", 12*time.Second)
	within(t, w, "ready", 12*time.Second)
	w.Clean()
}
