package kubelet_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/kubelet"
)

// TestStopOfWhatIsNotThere: a missing container counts as stopped.
func TestStopOfWhatIsNotThere(t *testing.T) {
	rt := simulated.Options{Behave: func(op simulated.Operation) simulated.Outcome {
		if op.Verb == simulated.StopContainer {
			return simulated.Outcome{Err: cri.ErrNotFound}
		}
		return simulated.Outcome{}
	}}
	simulate(t, rt, kubelet.Options{}, func(n *node) {
		n.pods.Put(newPod("web"))
		n.after(5 * time.Second)
		n.remove("web", 30)
		n.after(time.Second)
		n.expectEventsAbout("FailedKillPod")
		if _, there := n.pods.Get("default", "web"); there {
			t.Error("the pod is still there")
		}
	})
}

// TestStopOfASandboxThatIsNotThere: a missing sandbox counts as stopped.
func TestStopOfASandboxThatIsNotThere(t *testing.T) {
	asked := 0
	rt := simulated.Options{Behave: func(op simulated.Operation) simulated.Outcome {
		if op.Verb == simulated.StopSandbox {
			if asked++; asked == 1 {
				return simulated.Outcome{Err: cri.ErrNotFound}
			}
		}
		return simulated.Outcome{}
	}}
	simulate(t, rt, kubelet.Options{}, func(n *node) {
		n.pods.Put(newPod("web"))
		n.after(5 * time.Second)
		n.remove("web", 30)
		n.after(time.Minute)
		n.expectEventsAbout("FailedKillPod")
		if _, there := n.pods.Get("default", "web"); there || asked == 0 {
			t.Errorf("the pod is still there: %t", there)
		}
	})
}

// TestGraceOfAStartupProbe: a container that fails its startup probe gets the probe's grace period.
func TestGraceOfAStartupProbe(t *testing.T) {
	script := &probeScript{letters: "x"}
	simulate(t, script.options(simulated.Program{IgnoresStop: true}), kubelet.Options{}, func(n *node) {
		n.pods.Put(newPod("web", func(p *corev1.Pod) {
			p.Spec.Containers[0].StartupProbe = execProbe(5, 0)
			p.Spec.Containers[0].StartupProbe.TerminationGracePeriodSeconds = new(int64(4))
		}))
		n.after(39 * time.Second)
		n.expectStatuses("0s web Running main=running", "14s web Running Ready main=running#1")
	})
}

// TestForcedDeletionInterrupts: hanging work is given up when the pod is gone.
func TestForcedDeletionInterrupts(t *testing.T) {
	var made atomic.Bool
	rt := simulated.Options{Behave: func(op simulated.Operation) simulated.Outcome {
		made.Store(made.Load() || op.Verb == simulated.CreateContainer)
		return simulated.Outcome{Hang: op.Verb == simulated.PullImage}
	}}
	simulate(t, rt, kubelet.Options{}, func(n *node) {
		n.pods.Put(newPod("web"))
		n.after(5 * time.Second)
		n.pods.Delete("default", "web")
		n.after(time.Second)
		if made.Load() {
			t.Error("a container was to be made without its image")
		}
		n.after(time.Second)
		n.leftNothing()
	})
}

// TestSandboxesAreTriedAgain: a sandbox that cannot be made is tried again after a second, then after twice as long each
// time, up to ten, and after a success from the start.
func TestSandboxesAreTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		rt := simulated.New(simulated.Options{Behave: func(op simulated.Operation) simulated.Outcome {
			since := time.Since(w.start)
			if op.Verb == simulated.RunSandbox && (since < 40*time.Second || since > 100*time.Second && since < 102*time.Second) {
				return simulated.Outcome{Err: errors.New("no more addresses")}
			}
			return simulated.Outcome{}
		}})
		n := w.run(rt, kubelet.Options{})
		n.pods.Put(newPod("web"))
		n.after(101 * time.Second)
		sandboxes, err := rt.ListSandboxes(t.Context(), cri.Filter{})
		if err == nil {
			err = rt.StopPodSandbox(t.Context(), sandboxes[0].ID)
		}
		if err != nil {
			t.Fatal(err)
		}
		n.after(time.Minute)
		var times []string
		for _, line := range n.events {
			if at, _, failed := strings.Cut(line, " web Warning FailedCreatePodSandBox: Failed to create pod sandbox: no more addresses"); failed {
				times = append(times, at)
			}
		}
		if got := strings.Join(times, " "); got != "0s 1s 3s 7s 15s 25s 35s 101s" {
			t.Errorf("it failed at %s", got)
		}
		if got := summary(n.pod("web")); got != "web Running Ready main=running#1" {
			t.Errorf("the pod is %s", got)
		}
		n.stop()
		rt.Close()
	})
}

// TestGoneWhileItEnds: that a pod that is ending is gone from the API gives it no more time.
func TestGoneWhileItEnds(t *testing.T) {
	simulate(t, slow(), kubelet.Options{}, func(n *node) {
		n.pods.Put(newPod("web"))
		n.after(5 * time.Second)
		n.remove("web", 30)
		n.after(10 * time.Second)
		n.pods.Delete("default", "web")
		n.after(19900 * time.Millisecond)
		if n.container("main").State != cri.ContainerRunning {
			t.Error("it has ended already")
		}
		n.after(200 * time.Millisecond)
		n.leftNothing()
		n.expectEventsAbout("Killing", "5s web spec.containers{main} Normal Killing: Stopping container main")
	})
}

// TestPodThatIsRemovedBehindItsBack: a pod removed from the runtime is recreated, even without events.
func TestPodThatIsRemovedBehindItsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		rt := simulated.New(simulated.Options{})
		defer rt.Close()
		n := w.runOn(silent{rt, rt}, rt, kubelet.Options{})
		w.pods.Put(newPod("web"))
		n.after(1500 * time.Millisecond)
		sandboxes, err := rt.ListSandboxes(t.Context(), cri.Filter{})
		if err != nil || len(sandboxes) != 1 {
			t.Fatalf("%v, %v", sandboxes, err)
		}
		if err := rt.RemovePodSandbox(t.Context(), sandboxes[0].ID); err != nil {
			t.Fatal(err)
		}
		n.after(2 * time.Second)
		if list := n.containers(); len(list) != 1 || list[0].State != cri.ContainerRunning {
			t.Errorf("there is %+v", list)
		}
		n.stop()
	})
}

// TestPullThatTakesAWhile: how long it took to pull an image is told to the millisecond.
func TestPullThatTakesAWhile(t *testing.T) {
	rt := simulated.Options{Behave: func(op simulated.Operation) simulated.Outcome {
		if op.Verb == simulated.PullImage {
			return simulated.Outcome{Delay: 1234567 * time.Microsecond}
		}
		return simulated.Outcome{}
	}}
	simulate(t, rt, kubelet.Options{}, func(n *node) {
		n.pods.Put(newPod("web"))
		n.after(5 * time.Second)
		n.expectEventsAbout("Successfully", `1.23s web spec.containers{main} Normal Pulled: Successfully pulled image "nginx" in 1.234s (1.234s including waiting). Image size: 52428800 bytes.`)
	})
}

// registries is a runtime that pulls images only with the right credentials, and records those it gets.
type registries struct {
	*simulated.Runtime
	tried   []string
	inspect error
}

func (r *registries) PullImage(ctx context.Context, image cri.ImageSpec, auth *cri.Auth) (string, error) {
	user := "nobody"
	if auth != nil {
		user = auth.Username
	}
	r.tried = append(r.tried, user)
	if user != "good" {
		return "", errors.New("unauthorized: " + user)
	}
	return r.Runtime.PullImage(ctx, image, auth)
}

func (r *registries) ImageStatus(ctx context.Context, image cri.ImageSpec) (cri.Image, error) {
	if r.inspect != nil {
		return cri.Image{}, r.inspect
	}
	return r.Runtime.ImageStatus(ctx, image)
}

type keys []string

func (k keys) For(context.Context, *corev1.Pod, string) ([]cri.Auth, error) {
	var list []cri.Auth
	for _, user := range k {
		list = append(list, cri.Auth{Username: user})
	}
	return list, nil
}

// TestCredentialsAreTriedInTurn: credentials are tried in turn until one works, and none after it.
func TestCredentialsAreTriedInTurn(t *testing.T) {
	for _, c := range []struct {
		keys    keys
		inspect error
		tried   string
		waiting string
	}{
		{keys{"bad", "good", "better"}, nil, "bad good", ""},
		{keys{"bad", "worse"}, nil, "bad worse", "ErrImagePull"},
		{nil, nil, "nobody", "ErrImagePull"},
		{keys{"good"}, errors.New("disk failure"), "", "ImageInspectError"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			rt := simulated.New(simulated.Options{})
			defer rt.Close()
			r := &registries{Runtime: rt, inspect: c.inspect}
			n := w.runOn(r, rt, kubelet.Options{Host: kubelet.Host{Credentials: c.keys}})
			w.pods.Put(newPod("web"))
			n.after(500 * time.Millisecond)
			if got := strings.Join(r.tried, " "); got != c.tried {
				t.Errorf("tried %s, want %s", got, c.tried)
			}
			got := ""
			if s := w.pod("web").Status.ContainerStatuses; len(s) == 1 && s[0].State.Waiting != nil {
				got = s[0].State.Waiting.Reason
			}
			if got != c.waiting {
				t.Errorf("it waits because of %q, want %q", got, c.waiting)
			}
			if c.tried == "bad worse" {
				n.expectEventsAbout("Failed to pull", `0s web spec.containers{main} Warning Failed: Failed to pull image "nginx": [unauthorized: bad, unauthorized: worse]`)
			}
			if c.inspect != nil {
				n.expectEventsAbout("InspectFailed", `0s web spec.containers{main} Warning InspectFailed: Failed to inspect image "": disk failure`)
			}
			n.stop()
		})
	}
}

// TestHookThatCannotBeReached: the container does not keep running without its hook.
func TestHookThatCannotBeReached(t *testing.T) {
	hooks := kubelet.ProbeFunc(func(_ context.Context, target kubelet.ProbeTarget) error {
		if target.Probe.HTTPGet.Path != "/begin" || target.ContainerID == "" || len(target.IPs) == 0 {
			t.Errorf("the hook is called with %+v", target)
		}
		return errors.New("connection refused")
	})
	simulate(t, simulated.Options{}, kubelet.Options{Host: kubelet.Host{Hooks: hooks}}, func(n *node) {
		n.pods.Put(newPod("web", func(p *corev1.Pod) {
			p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/begin"}}}
		}))
		n.after(time.Second)
		n.expectStatuses("0s web Running main=PostStartHookError")
		n.expectEventsAbout("Hook",
			"0s web spec.containers{main} Warning FailedPostStartHook: PostStartHook failed",
			"0s web spec.containers{main} Normal Killing: FailedPostStartHook")
		if slices.ContainsFunc(n.containers(), func(c cri.Container) bool { return c.State == cri.ContainerRunning }) {
			t.Error("the container runs")
		}
	})
}
