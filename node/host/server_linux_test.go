package host_test

import (
	"fmt"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/keelson-dev/keelson/node/internal/nodetest"
)

// TestServerAway: while the API server is away containers are restarted all the same; it hears of everything when it is
// back, in order, and what was asked for meanwhile is done.
func TestServerAway(t *testing.T) {
	if testing.Short() {
		t.Skip("long: the run without -short has it")
	}
	t.Parallel()
	w := nodetest.Start(t, nodetest.Options{})
	w.Create(nodetest.Pod("restarts", nodetest.Shell("c", "sleep 2; exit 3")))
	w.Create(nodetest.Pod("steady", nodetest.Sleeper("c")))
	w.Create(nodetest.Pod("doomed", nodetest.Sleeper("c")))
	ends := nodetest.Pod("ends", nodetest.Shell("c", "sleep 3; echo -n bye > /dev/termination-log"))
	ends.Spec.RestartPolicy = corev1.RestartPolicyNever
	w.Create(ends)
	pid := w.PID(w.Ready("steady"), "c")
	doomed := w.PID(w.Ready("doomed"), "c")
	w.Ready("ends")
	first := w.Ready("restarts").Status.ContainerStatuses[0].ContainerID

	changes, err := w.Clients.CoreV1().Pods("default").Watch(w.Context, metav1.ListOptions{})
	w.Check(err)
	defer changes.Stop()
	w.ServerAway(true)
	w.Delete("doomed")
	w.Create(nodetest.Pod("late", nodetest.Sleeper("c")))
	if c := w.UntilReady(false); c.Status != corev1.ConditionUnknown || c.Reason != "NodeStatusUnknown" || c.Message != "Kubelet stopped posting node status." {
		t.Errorf("the node's condition is %+v", c)
	}
	if got := w.Until("ends", "there", func(*corev1.Pod) bool { return true }); got.Status.Phase != corev1.PodRunning {
		t.Errorf("pod ends is %s although nobody could tell", got.Status.Phase)
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", doomed)); err != nil {
		t.Errorf("a pod was ended by a kubelet that cannot know that it was deleted: %v", err)
	}
	w.ServerAway(false)
	w.UntilReady(true)
	w.Gone("doomed")
	w.Ready("late")
	pod := w.Until("ends", "over", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodSucceeded })
	if s := pod.Status.ContainerStatuses[0].State.Terminated; s == nil || s.Message != "bye" || s.Reason != "Completed" {
		t.Errorf("pod ends: %+v", pod.Status.ContainerStatuses[0])
	}
	pod = w.Until("restarts", "restarted", func(p *corev1.Pod) bool { return p.Status.ContainerStatuses[0].RestartCount > 0 })
	if pod.Status.ContainerStatuses[0].ContainerID == first {
		t.Error("a container that was restarted has its old id")
	}
	if now := w.PID(w.Ready("steady"), "c"); now != pid {
		t.Errorf("process %d has become %d", pid, now)
	}
	w.DeleteAll("restarts", "steady", "late", "ends")
	counts := map[string]int32{}
	for {
		select {
		case e := <-changes.ResultChan():
			pod, ok := e.Object.(*corev1.Pod)
			if !ok {
				t.Fatalf("the watch broke off: %v", e)
			}
			for _, s := range pod.Status.ContainerStatuses {
				if s.RestartCount < counts[pod.Name] {
					t.Errorf("pod %s: %d restarts after %d", pod.Name, s.RestartCount, counts[pod.Name])
				}
				counts[pod.Name] = s.RestartCount
			}
			if e.Type == watch.Deleted && pod.Name == "ends" {
				return
			}
		case <-w.Context.Done():
			t.Fatal("pod ends was not deleted")
		}
	}
}
