package cluster_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cri/simulated"
)

// programs returns options for one node whose containers run the given program.
func programs(program func(simulated.Process) simulated.Program) cluster.Options {
	return cluster.Options{Nodes: cluster.Nodes{Count: 1, Runtime: func(string) simulated.Options {
		return simulated.Options{Program: program}
	}}}
}

// stubborn returns options for a node whose containers stop only when killed.
func stubborn() cluster.Options {
	return programs(func(simulated.Process) simulated.Program { return simulated.Program{IgnoresStop: true} })
}

// TestCrashLoop: a container that ends a second after each start is started again at once, then
// after 10, 20, 40, 80, 160 seconds, and from then on every five minutes.
func TestCrashLoop(t *testing.T) {
	var mu sync.Mutex
	var starts []time.Time
	o := programs(func(simulated.Process) simulated.Program {
		mu.Lock()
		defer mu.Unlock()
		starts = append(starts, time.Now())
		return simulated.Program{Exits: true, After: time.Second, ExitCode: 3, Message: "no config"}
	})
	inBubble(t, o, func(t *testing.T, w *world) {
		w.create(deploymentOf("web", 1))
		time.Sleep(25 * time.Second)
		pod := w.listed("web")[0]
		status := pod.Status.ContainerStatuses[0]
		if status.State.Waiting == nil || status.State.Waiting.Reason != "CrashLoopBackOff" {
			t.Errorf("state is %+v", status.State)
		} else if want := "back-off 20s restarting failed container=nginx pod=" + pod.Name + "_default(" + string(pod.UID) + ")"; status.State.Waiting.Message != want {
			t.Errorf("message is %q, want %q", status.State.Waiting.Message, want)
		}
		if last := status.LastTerminationState.Terminated; last == nil || last.ExitCode != 3 || last.Reason != "Error" || last.Message != "no config" {
			t.Errorf("last state is %+v", last)
		}
		if status.RestartCount != 2 || pod.Status.Phase != corev1.PodRunning || condition(&pod, corev1.PodReady) != corev1.ConditionFalse {
			t.Errorf("%d restarts, phase %s", status.RestartCount, pod.Status.Phase)
		}
		time.Sleep(20 * time.Minute)
		if got := w.deployment("web").Status; got.AvailableReplicas != 0 || got.UnavailableReplicas != 1 {
			t.Errorf("the deployment says %+v", got)
		}
		mu.Lock()
		defer mu.Unlock()
		waits := waits(starts, time.Second)
		want := []time.Duration{0, 10, 20, 40, 80, 160, 300, 300}
		for i := range min(len(want), len(waits)) {
			// A worker whose back-off has not expired looks again with up to 1.5 seconds of jitter.
			if d := waits[i] - want[i]*time.Second; d < 0 || d > 2*time.Second {
				t.Errorf("restart %d came after %v, want %v", i+1, waits[i], want[i]*time.Second)
			}
		}
		if len(waits) < len(want) {
			t.Errorf("restarted after %v", waits)
		}
	})
}

// waits returns the pauses between each end, which is run after the start, and the next start.
func waits(starts []time.Time, run time.Duration) []time.Duration {
	var list []time.Duration
	for i := 1; i < len(starts); i++ {
		list = append(list, starts[i].Sub(starts[i-1])-run)
	}
	return list
}

// TestRestartPolicy: whether a container that exits is restarted depends on its exit code and the pod's policy.
func TestRestartPolicy(t *testing.T) {
	for _, test := range []struct {
		policy   corev1.RestartPolicy
		code     int32
		phase    corev1.PodPhase
		restarts bool
	}{
		{corev1.RestartPolicyNever, 0, corev1.PodSucceeded, false},
		{corev1.RestartPolicyNever, 1, corev1.PodFailed, false},
		{corev1.RestartPolicyOnFailure, 0, corev1.PodSucceeded, false},
		{corev1.RestartPolicyOnFailure, 1, corev1.PodRunning, true},
		{corev1.RestartPolicyAlways, 0, corev1.PodRunning, true},
	} {
		o := programs(func(simulated.Process) simulated.Program {
			return simulated.Program{Exits: true, After: 5 * time.Second, ExitCode: test.code}
		})
		inBubble(t, o, func(t *testing.T, w *world) {
			pod := testPod("job")
			pod.Spec.RestartPolicy = test.policy
			_, err := w.pods.Create(w.ctx, pod, metav1.CreateOptions{})
			w.check(err)
			time.Sleep(time.Minute)
			pod, err = w.pods.Get(w.ctx, "job", metav1.GetOptions{})
			w.check(err)
			if pod.Status.Phase != test.phase || pod.Status.ContainerStatuses[0].RestartCount > 0 != test.restarts {
				t.Errorf("%s, code %d: phase %s after %d restarts", test.policy, test.code, pod.Status.Phase, pod.Status.ContainerStatuses[0].RestartCount)
			}
		})
	}
}

// TestCrashEvents: the events of a container that keeps crashing, as kubectl describe shows them.
func TestCrashEvents(t *testing.T) {
	o := programs(func(simulated.Process) simulated.Program {
		return simulated.Program{Exits: true, ExitCode: 1}
	})
	inBubble(t, o, func(t *testing.T, w *world) {
		_, err := w.pods.Create(w.ctx, testPod("web"), metav1.CreateOptions{})
		w.check(err)
		time.Sleep(time.Minute)
		l, err := w.cs.CoreV1().Events("default").List(w.ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=web"})
		w.check(err)
		var reasons []string
		for _, e := range l.Items {
			reasons = append(reasons, e.Reason)
		}
		for _, want := range []string{"Scheduled", "Pulled", "Created", "Started", "BackOff"} {
			if !slices.Contains(reasons, want) {
				t.Errorf("no event %s among %v", want, reasons)
			}
		}
	})
}
