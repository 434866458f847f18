package host_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/node/internal/nodetest"
)

// TestContainerdKilled: containers go on while their runtime is gone, the node says so, and what was asked for
// meanwhile happens afterwards.
func TestContainerdKilled(t *testing.T) {
	w := nodetest.Start(t, nodetest.Options{})
	w.Create(nodetest.Pod("before", nodetest.Sleeper("c")))
	w.Create(nodetest.Pod("doomed", nodetest.Sleeper("c")))
	before := w.Ready("before")
	w.Ready("doomed")
	pid := w.PID(before, "c")

	release := w.HoldContainerd()
	w.KillContainerd()
	w.Create(nodetest.Pod("meanwhile", nodetest.Sleeper("c")))
	w.Delete("doomed")
	if c := w.UntilReady(false); c.Reason != "KubeletNotReady" || c.Message != "container runtime is down" {
		t.Errorf("the node says %s: %s", c.Reason, c.Message)
	}
	if now := w.PID(before, "c"); now != pid {
		t.Errorf("process %d has become %d", pid, now)
	}
	release()
	w.UntilReady(true)
	w.Gone("doomed")
	w.Until("meanwhile", "running", nodetest.IsReady)
	now := w.Ready("before")
	if got := w.PID(now, "c"); got != pid {
		t.Errorf("process %d has become %d", pid, got)
	}
	for name, pod := range map[string]*corev1.Pod{"before": now, "meanwhile": w.Ready("meanwhile")} {
		if n := pod.Status.ContainerStatuses[0].RestartCount; n != 0 {
			t.Errorf("%s: %d restarts", name, n)
		}
	}
	for _, e := range w.Events("before") {
		if e.Type == corev1.EventTypeWarning && e.Reason != "MissingClusterDNS" {
			t.Errorf("event about a pod that fared well: %s: %s", e.Reason, e.Message)
		}
	}
	w.DeleteAll("before", "meanwhile")
}
