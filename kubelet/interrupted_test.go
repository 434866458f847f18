package kubelet_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/kubelet"
)

// TestInterruptedRequests: what a kubelet gives up because it is stopped has not failed, and is not logged.
func TestInterruptedRequests(t *testing.T) {
	for _, request := range []string{"create nodes", "patch nodes/status", "get leases", "create leases", "update leases"} {
		t.Run(request, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				hung := w.breaks(request, func() error { return errHangs })
				rt := simulated.New(simulated.Options{})
				var lines []string
				n := w.run(rt, kubelet.Options{Logger: logger(w, &lines)})
				n.after(5 * time.Second)
				rt.SetStatus(cri.RuntimeStatus{})
				n.after(6 * time.Second)
				n.stop()
				if hung() == "" {
					t.Error("nothing was requested")
				}
				lines = strings.Split(strings.Join(lines, "\n"), "\n")
				for _, line := range lines {
					if strings.HasPrefix(line, "11s") {
						t.Errorf("logged is %s", line)
					}
				}
				rt.Close()
			})
		})
	}
}

// TestInterruptedOperations: neither has what it gives up of its pods. Nothing is logged of it, and no event says so.
func TestInterruptedOperations(t *testing.T) {
	for name, c := range map[string]struct {
		verb simulated.Verb
		end  bool // of the pod
	}{
		"lists":                    {verb: simulated.List},
		"no answer from the start": {verb: simulated.List},
		"a sandbox that comes":     {verb: simulated.RunSandbox},
		"a sandbox that goes":      {simulated.StopSandbox, true},
		"a container":              {simulated.StopContainer, true},
		"an image":                 {verb: simulated.PullImage},
		"a probe":                  {verb: simulated.Exec},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				var mu sync.Mutex
				hangs := strings.HasPrefix(name, "no answer")
				rt := simulated.New(simulated.Options{Behave: func(op simulated.Operation) simulated.Outcome {
					mu.Lock()
					defer mu.Unlock()
					return simulated.Outcome{Hang: hangs && op.Verb == c.verb}
				}})
				var lines []string
				n := w.run(rt, kubelet.Options{Logger: logger(w, &lines)})
				set := func(hang bool) {
					mu.Lock()
					defer mu.Unlock()
					hangs = hang
				}
				synctest.Wait()
				set(!c.end)
				n.pods.Put(newPod("web", func(p *corev1.Pod) {
					p.Spec.Containers[0].LivenessProbe = execProbe(1, 0)
					p.Spec.Containers[0].LivenessProbe.TimeoutSeconds = 60
				}))
				n.after(19900 * time.Millisecond)
				if c.end {
					set(true)
					n.remove("web", 30)
				}
				n.after(200 * time.Millisecond) // the runtime's pods are listed
				n.stop()
				if len(lines) > 0 {
					t.Errorf("logged is %q", lines)
				}
				if strings.HasPrefix(name, "no answer") {
					n.expectEvents()
				}
				n.expectEventsAbout(" Warning ")
				rt.Close()
			})
		})
	}
}

// TestInterruptedProbe: a probe that its container does not survive has no result.
func TestInterruptedProbe(t *testing.T) {
	prober := kubelet.ProbeFunc(func(ctx context.Context, _ kubelet.ProbeTarget) error {
		<-ctx.Done()
		return ctx.Err()
	})
	simulate(t, simulated.Options{}, kubelet.Options{Host: kubelet.Host{Prober: prober}}, func(n *node) {
		n.pods.Put(newPod("web", withAllProbes, func(p *corev1.Pod) {
			p.Spec.Containers[0].LivenessProbe.TimeoutSeconds = 60
			p.Spec.Containers[0].ReadinessProbe.TimeoutSeconds = 60
		}))
		n.after(5 * time.Second)
		if err := n.runtime.Exit(n.container("main").ID, 1); err != nil {
			t.Fatal(err)
		}
		n.after(time.Second)
		n.remove("web", 30)
		n.after(time.Second)
		n.leftNothing()
		n.expectEventsAbout("Unhealthy")
	})
}

// TestEndingThatChanges: of a pod that is gone from the API nothing is said there, even if one of its containers ends
// before the other.
func TestEndingThatChanges(t *testing.T) {
	rt := simulated.Options{Behave: func(op simulated.Operation) simulated.Outcome {
		return simulated.Outcome{Hang: op.Verb == simulated.StopContainer && op.Container.Name == "main"}
	}}
	simulate(t, rt, kubelet.Options{}, func(n *node) {
		n.pods.Put(newPod("web", func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "other", Image: "nginx"})
		}))
		n.after(5 * time.Second)
		sent := n.count("patch pods/status")
		n.pods.Delete("default", "web")
		n.after(10 * time.Minute)
		if got := n.count("patch pods/status") - sent; got > 0 {
			t.Errorf("%d statuses are sent", got)
		}
	})
}

// TestAllSandboxesAreStopped: also one that should not be there.
func TestAllSandboxesAreStopped(t *testing.T) {
	simulate(t, simulated.Options{}, kubelet.Options{}, func(n *node) {
		n.pods.Put(newPod("web", func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(10)) }))
		n.after(5 * time.Second)
		_, err := n.runtime.RunPodSandbox(t.Context(), cri.SandboxConfig{
			Metadata: cri.SandboxMetadata{Name: "web", Namespace: "default", UID: "uid-of-web", Attempt: 7}, Labels: n.containers()[0].Labels,
		})
		if err != nil {
			t.Fatal(err)
		}
		n.after(time.Minute)
		sandboxes, err := n.runtime.ListSandboxes(t.Context(), cri.Filter{})
		if err != nil || len(sandboxes) < 2 {
			t.Errorf("%d sandboxes, %v", len(sandboxes), err)
		}
		for _, s := range sandboxes {
			if s.State == cri.SandboxReady {
				t.Errorf("attempt %d is %v", s.Metadata.Attempt, s.State)
			}
		}
	})
}

// TestTurnsEndWithTheGrace: a sidecar waits for others no longer than for the grace period, however many there are that
// do not end.
func TestTurnsEndWithTheGrace(t *testing.T) {
	rt := simulated.Options{
		Behave: func(op simulated.Operation) simulated.Outcome {
			return simulated.Outcome{Hang: op.Verb == simulated.StopContainer && op.Container.Name != "side"}
		},
	}
	simulate(t, rt, kubelet.Options{}, func(n *node) {
		n.pods.Put(newPod("web", func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "side", Image: "nginx", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}}
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "other", Image: "nginx"})
		}))
		n.after(5 * time.Second)
		n.remove("web", 30)
		n.after(time.Minute)
		if side := n.container("side"); side.State != cri.ContainerExited || side.FinishedAt.Sub(n.start) != 35*time.Second {
			t.Errorf("the sidecar is %v, since %s", side.State, side.FinishedAt.Sub(n.start))
		}
	})
}
