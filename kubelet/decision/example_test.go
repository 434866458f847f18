package decision_test

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet/decision"
)

// A container failed 3 seconds ago. It is to be restarted, but not before its back-off of 10 seconds is over.
func ExampleDecide() {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyOnFailure,
		Containers:    []corev1.Container{{Name: "main", Image: "busybox"}},
	}}
	ended := now.Add(-3 * time.Second)
	backoff := decision.NewBackoff(10*time.Second, 5*time.Minute, 10*time.Minute)
	backoff.Next(decision.BackoffKey(&pod.Spec.Containers[0]), ended, ended)

	d := decision.Decide(decision.Situation{
		Pod: pod,
		Observed: decision.Observation{
			Sandboxes: []cri.SandboxStatus{{
				Sandbox: cri.Sandbox{ID: "s", State: cri.SandboxReady}, IPs: []string{"10.0.0.9"},
			}},
			Containers: []cri.ContainerStatus{{
				Container: cri.Container{ID: "c", SandboxID: "s", State: cri.ContainerExited, Metadata: cri.ContainerMetadata{Name: "main"}},
				ExitCode:  1, FinishedAt: ended,
			}},
		},
		Backoff: backoff,
		Now:     now,
	})
	start := d.Actions.Start[0]
	fmt.Println(d.Status.Phase, d.Status.ContainerStatuses[0].State.Terminated.ExitCode)
	fmt.Println("attempt", start.Attempt, "in", start.Until.Sub(now))
	fmt.Println("decide again in", d.Again.Sub(now))
	// Output:
	// Running 1
	// attempt 1 in 7s
	// decide again in 7s
}
