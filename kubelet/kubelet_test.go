package kubelet_test

import (
	"testing"
	"time"

	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/kubelet"
)

func TestPodLifeCycle(t *testing.T) {
	simulate(t, simulated.Options{}, kubelet.Options{}, func(n *node) {
		n.expectEvents(
			"0s n1 Normal Starting: Starting kubelet.",
			"0s n1 Normal NodeHasSufficientMemory: Node n1 status is now: NodeHasSufficientMemory",
			"0s n1 Normal NodeHasNoDiskPressure: Node n1 status is now: NodeHasNoDiskPressure",
			"0s n1 Normal NodeHasSufficientPID: Node n1 status is now: NodeHasSufficientPID",
			"0s n1 Normal NodeReady: Node n1 status is now: NodeReady",
		)
		n.pods.Put(newPod("web"))
		n.after(time.Second)
		n.expectStatuses("0s web Running Ready main=running")
		n.expectEvents(
			`0s web spec.containers{main} Normal Pulling: Pulling image "nginx"`,
			`0s web spec.containers{main} Normal Pulled: Successfully pulled image "nginx" in 0s (0s including waiting). Image size: 52428800 bytes.`,
			"0s web spec.containers{main} Normal Created: Container created",
			"0s web spec.containers{main} Normal Started: Container started",
		)
		n.remove("web", 30)
		n.after(time.Second)
		n.expectStatuses("1s web Succeeded main=Completed(0)", "1s web deleted")
		n.expectEvents("1s web spec.containers{main} Normal Killing: Stopping container main")
		if got := n.count("patch pods/status"); got != 2 {
			t.Errorf("%d status writes for the whole life of a pod, want 2", got)
		}
	})
}
