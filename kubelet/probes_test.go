package kubelet_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/kubelet"
)

func execProbe(period, delay int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:        corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"check"}}},
		PeriodSeconds:       period,
		InitialDelaySeconds: delay,
	}
}

func TestReadinessProbe(t *testing.T) {
	rt := simulated.Options{Program: func(simulated.Process) simulated.Program {
		return simulated.Program{ReadyAfter: 7 * time.Second}
	}}
	simulate(t, rt, kubelet.Options{}, func(n *node) {
		n.pods.Put(newPod("web", func(p *corev1.Pod) { p.Spec.Containers[0].ReadinessProbe = execProbe(5, 2) }))
		n.after(30 * time.Second)
		n.expectStatuses("0s web Running main=running", "7s web Running Ready main=running")
		n.expectEventsAbout("Unhealthy", "2s web spec.containers{main} Warning Unhealthy: Readiness probe failed: ")
	})
}

func TestLivenessProbeRestarts(t *testing.T) {
	rt := simulated.Options{Program: func(p simulated.Process) simulated.Program {
		if p.Container.Attempt > 0 {
			return simulated.Program{}
		}
		return simulated.Program{IgnoresStop: true, Exec: func([]string) cri.ExecResult {
			return cri.ExecResult{ExitCode: 1, Stderr: []byte("stuck")}
		}}
	}}
	simulate(t, rt, kubelet.Options{}, func(n *node) {
		n.pods.Put(newPod("web", func(p *corev1.Pod) {
			p.Spec.Containers[0].LivenessProbe = execProbe(10, 0)
			grace := int64(4)
			p.Spec.Containers[0].LivenessProbe.TerminationGracePeriodSeconds = &grace
		}))
		n.after(60 * time.Second)
		n.expectStatuses("0s web Running Ready main=running", "24s web Running Ready main=running#1")
		n.mu.Lock()
		last := n.events[len(n.events)-5:]
		n.mu.Unlock()
		want := []string{
			"20s web spec.containers{main} Warning Unhealthy: Liveness probe failed: stuck",
			"20s web spec.containers{main} Normal Killing: Container main failed liveness probe, will be restarted",
		}
		for i := range want {
			if last[i] != want[i] {
				t.Errorf("event %q, want %q", last[i], want[i])
			}
		}
	})
}

func TestStartupProbeHoldsTheOthersBack(t *testing.T) {
	calls := 0
	prober := kubelet.ProbeFunc(func(_ context.Context, target kubelet.ProbeTarget) error {
		calls++
		if target.Probe.HTTPGet.Path == "/started" && calls < 4 {
			return errors.New("HTTP probe failed with statuscode: 503")
		}
		if len(target.IPs) != 1 || !strings.HasPrefix(target.IPs[0], "10.88.") {
			t.Errorf("the probe goes to %v", target.IPs)
		}
		return nil
	})
	get := func(path string) *corev1.Probe {
		return &corev1.Probe{PeriodSeconds: 3, FailureThreshold: 10, ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(80)},
		}}
	}
	simulate(t, simulated.Options{}, kubelet.Options{Host: kubelet.Host{Prober: prober}}, func(n *node) {
		n.pods.Put(newPod("web", func(p *corev1.Pod) {
			p.Spec.Containers[0].StartupProbe = get("/started")
			p.Spec.Containers[0].ReadinessProbe = get("/ready")
		}))
		n.after(20 * time.Second)
		n.expectStatuses("0s web Running main=running", "9s web Running Ready main=running")
		n.expectEventsAbout("Unhealthy",
			"0s web spec.containers{main} Warning Unhealthy: Startup probe failed: HTTP probe failed with statuscode: 503",
			"3s web spec.containers{main} Warning Unhealthy: Startup probe failed: HTTP probe failed with statuscode: 503",
			"6s web spec.containers{main} Warning Unhealthy: Startup probe failed: HTTP probe failed with statuscode: 503",
		)
	})
}

func TestReadinessGates(t *testing.T) {
	simulate(t, simulated.Options{}, kubelet.Options{}, func(n *node) {
		n.pods.Put(newPod("web", func(p *corev1.Pod) {
			p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/open"}}
		}))
		n.after(time.Second)
		n.expectStatuses("0s web Running main=running")
		pod := n.pod("web").DeepCopy()
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: "example.com/open", Status: corev1.ConditionTrue})
		n.pods.Put(pod)
		n.after(time.Second)
		n.expectStatuses("1s web Running Ready main=running")
	})
}

func TestHooks(t *testing.T) {
	rt := simulated.Options{Program: func(simulated.Process) simulated.Program {
		return simulated.Program{Exec: func(command []string) cri.ExecResult {
			if command[0] == "bad" {
				return cri.ExecResult{ExitCode: 2}
			}
			return cri.ExecResult{}
		}}
	}}
	simulate(t, rt, kubelet.Options{}, func(n *node) {
		n.pods.Put(newPod("good", func(p *corev1.Pod) {
			p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{
				PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"fine"}}},
				PreStop:   &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 5}},
			}
		}))
		n.after(time.Second)
		n.remove("good", 30)
		n.after(10 * time.Second)
		n.expectStatuses("0s good Running Ready main=running", "1.02s good Running Ready main=running",
			"6s good Succeeded main=Completed(0)", "6s good deleted")

		n.expectEventsAbout("nothing")
		n.pods.Put(newPod("bad", func(p *corev1.Pod) {
			p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{
				PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"bad"}}},
			}
		}))
		n.after(time.Second)
		n.expectStatuses("11s bad Running main=PostStartHookError")
		n.expectEventsAbout("Hook",
			"11s bad spec.containers{main} Warning FailedPostStartHook: PostStartHook failed",
			"11s bad spec.containers{main} Normal Killing: FailedPostStartHook",
		)
	})
}

// TestHookThatTakesLong: a hook takes as long as it takes.
func TestHookThatTakesLong(t *testing.T) {
	rt := simulated.Options{Behave: func(op simulated.Operation) simulated.Outcome {
		if op.Verb == simulated.Exec {
			return simulated.Outcome{Delay: 10 * time.Minute}
		}
		return simulated.Outcome{}
	}}
	simulate(t, rt, kubelet.Options{}, func(n *node) {
		n.pods.Put(newPod("web", func(p *corev1.Pod) {
			p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"wait"}}}}
		}))
		n.after(11 * time.Minute)
		n.expectEventsAbout("Hook")
	})
}

// watcher observes a kubelet.
type watcher struct {
	mu       sync.Mutex
	started  []string
	synced   int
	rejected []string
}

func (w *watcher) PodStarted(created, seen, running time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.started = append(w.started, seen.Sub(created).String()+" "+running.Sub(seen).String())
}

func (w *watcher) PodSynced(time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.synced++
}

func (w *watcher) Rejected(reason string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rejected = append(w.rejected, reason)
}

// TestObserver: an observer is told once of each pod that all of it runs, of each sync, and of those that are rejected.
func TestObserver(t *testing.T) {
	rt := simulated.Options{Behave: func(op simulated.Operation) simulated.Outcome {
		if op.Verb == simulated.PullImage && op.Image == "slow:latest" {
			return simulated.Outcome{Delay: 7 * time.Second}
		}
		return simulated.Outcome{}
	}}
	watcher := &watcher{}
	o := kubelet.Options{Observer: watcher}
	simulate(t, rt, o, func(n *node) {
		n.after(time.Second)
		n.pods.Put(newPod("web", func(p *corev1.Pod) {
			p.CreationTimestamp.Time = p.CreationTimestamp.Add(-3 * time.Second)
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "second", Image: "slow"})
		}))
		n.pods.Put(newPod("strange", func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: "plan9"} }))
		n.after(20 * time.Second)
		if err := n.runtime.Exit(n.container("main").ID, 1); err != nil {
			t.Fatal(err)
		}
		n.after(20 * time.Second)
		expect := func() {
			t.Helper()
			if started := strings.Join(watcher.started, ", "); started != "3s 7s" || strings.Join(watcher.rejected, " ") != "PodOSNotSupported" || watcher.synced == 0 {
				t.Errorf("started are %s, rejected %v, %d syncs", started, watcher.rejected, watcher.synced)
			}
		}
		expect()
		n.stop()
		next := n.run(n.runtime, o) // what ran before it does not start with it
		next.after(20 * time.Second)
		expect()
		next.stop()
	})
}
