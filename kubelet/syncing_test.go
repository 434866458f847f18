package kubelet_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/kubelet"
)

// TestListThatFails: what the runtime says when it is asked about a pod is an event, and the pod goes on when that is over.
func TestListThatFails(t *testing.T) {
	var broken atomic.Bool
	rt := simulated.Options{Behave: func(op simulated.Operation) simulated.Outcome {
		if broken.Load() && op.Verb == simulated.List {
			return simulated.Outcome{Err: errors.New("disk on fire")}
		}
		return simulated.Outcome{}
	}}
	simulate(t, rt, kubelet.Options{}, func(n *node) {
		n.after(5 * time.Second)
		broken.Store(true)
		n.pods.Put(newPod("web"))
		n.after(5 * time.Second)
		n.expectEventsAbout("FailedSync", "5s web Warning FailedSync: error determining status: disk on fire")
		broken.Store(false)
		n.after(time.Minute)
		if status := n.pod("web").Status; status.Phase != corev1.PodRunning {
			t.Errorf("the pod is %s", status.Phase)
		}
	})
}

// looked is a runtime that counts how often it is asked about single pods.
type looked struct {
	*simulated.Runtime
	times atomic.Int32
}

func (l *looked) SandboxStatus(ctx context.Context, id string) (cri.SandboxStatus, error) {
	l.times.Add(1)
	return l.Runtime.SandboxStatus(ctx, id)
}

// TestAtRest: while nothing happens, the runtime is asked for lists of its pods only.
func TestAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := &looked{Runtime: simulated.New(simulated.Options{})}
		n := w.runOn(l, l.Runtime, kubelet.Options{})
		w.pods.Put(newPod("web"))
		n.after(time.Minute)
		before := l.times.Load()
		n.after(10 * time.Minute)
		if got := l.times.Load() - before; before == 0 || got > 0 {
			t.Errorf("it was asked %d times at first, and %d times when nothing happened", before, got)
		}
		n.stop()
		l.Close()
	})
}

// words are Messages: the last ones of containers.
type words struct{}

func (words) Message(c cri.ContainerStatus) string { return "so ends " + c.Metadata.Name }

// TestLastWords: what a container says when it has ended is in the status of its pod; who runs is not asked.
func TestLastWords(t *testing.T) {
	simulate(t, simulated.Options{}, kubelet.Options{Host: kubelet.Host{Messages: words{}}}, func(n *node) {
		n.pods.Put(newPod("web", func(p *corev1.Pod) {
			p.Spec.RestartPolicy = corev1.RestartPolicyNever
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "other", Image: "nginx"})
		}))
		n.after(time.Second)
		if err := n.runtime.Exit(n.of("web", "main").ID, 3); err != nil {
			t.Fatal(err)
		}
		n.after(time.Second)
		for _, s := range n.pod("web").Status.ContainerStatuses {
			if ended := s.State.Terminated; (ended != nil) != (s.Name == "main") || ended != nil && ended.Message != "so ends main" {
				t.Errorf("%s: %+v", s.Name, s.State)
			}
		}
	})
}

// TestEndWithoutEvents: a pod has ended when its containers have, though the runtime tells nothing.
func TestEndWithoutEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		rt := simulated.New(simulated.Options{})
		n := w.runOn(silent{rt, rt}, rt, kubelet.Options{})
		w.pods.Put(newPod("web"))
		n.after(5 * time.Second)
		w.expectStatuses("0s web Running Ready main=running")
		w.remove("web", 30)
		n.after(500 * time.Millisecond)
		w.expectStatuses("5s web Succeeded main=Completed(0)", "5s web deleted")
		n.stop()
		rt.Close()
	})
}

// TestForcedDeletionIsNotReported: while a pod ends that is gone from the API, nothing is said of it there, and it is not
// gone from the node.
func TestForcedDeletionIsNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		rt := simulated.New(slow())
		n := w.runStatic(rt)
		w.pods.Put(newPod("web"))
		n.after(time.Second)
		sent := w.count("patch pods/status")
		w.pods.Delete("default", "web")
		n.after(time.Second)
		if n.kubelet.Gone("uid-of-web") {
			t.Error("it is gone although it runs")
		}
		n.after(time.Minute)
		if got := w.count("patch pods/status") - sent; got > 0 {
			t.Errorf("%d statuses are sent", got)
		}
		n.leftNothing()
		// Nor is it gone while a later kubelet ends it.
		w.pods.Put(newPod("other"))
		n.after(time.Second)
		n.stop()
		w.pods.Delete("default", "other")
		n = w.runStatic(rt)
		n.after(time.Second)
		if n.kubelet.Gone("uid-of-other") {
			t.Error("it is gone although it runs")
		}
		n.after(time.Minute)
		if !n.kubelet.Gone("uid-of-other") {
			t.Error("it is not gone")
		}
		n.leftNothing()
		n.stop()
		rt.Close()
	})
}

// TestLogsOfRemovedContainers: they are removed where they have a directory and somebody who can; if that fails, the
// container starts later.
func TestLogsOfRemovedContainers(t *testing.T) {
	exits := simulated.Options{Program: func(simulated.Process) simulated.Program { return simulated.Program{Exits: true, After: time.Second} }}
	for name, c := range map[string]struct {
		dir     bool
		remover kubelet.LogRemover
		removed bool
	}{
		"all there":    {true, &shredder{}, true},
		"no directory": {false, &shredder{}, false},
		"nobody":       {true, nil, false},
		"stuck":        {true, stuck{}, false},
	} {
		logs := kubelet.Logs{Remover: c.remover}
		if c.dir {
			logs.Dir = t.TempDir()
		}
		simulate(t, exits, kubelet.Options{Host: kubelet.Host{Logs: logs}}, func(n *node) {
			n.pods.Put(newPod("web"))
			n.after(5 * time.Minute)
			if s, ok := c.remover.(*shredder); ok && (len(s.paths()) > 0) != c.removed {
				t.Errorf("%s: removed are %v", name, s.paths())
			}
			if restarts := n.pod("web").Status.ContainerStatuses[0].RestartCount; restarts != map[bool]int32{true: 3, false: 5}[name == "stuck"] {
				t.Errorf("%s: %d restarts", name, restarts)
			}
		})
	}
}

// stuck removes no logs.
type stuck struct{}

func (stuck) RemoveLog(string) error { return errors.New("paper jam") }
