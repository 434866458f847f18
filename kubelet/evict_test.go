package kubelet_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/kubelet"
)

var short = kubelet.Eviction{
	Reason: "Evicted", Message: "The node was low on resource: memory. ", Grace: 3,
	Condition: &corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonTerminationByKubelet, Message: "The node was low on resource: memory. ",
	},
}

// slow containers take longer to exit than their grace period.
func slow() simulated.Options {
	return simulated.Options{Images: []string{"nginx"}, Program: func(simulated.Process) simulated.Program {
		return simulated.Program{StopAfter: time.Hour}
	}}
}

func condition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// TestEvict: the pod fails for good, within the eviction's grace period and not its own.
func TestEvict(t *testing.T) {
	withStatic(t, slow(), func(n *staticNode) {
		n.pods.Put(newPod("web"))
		n.after(time.Second)
		n.expectStatuses("0s web Running Ready main=running")
		if list := n.kubelet.Active(); len(list) != 1 || list[0].Name != "web" {
			t.Errorf("active are %v", list)
		}

		began := time.Now()
		if err := n.kubelet.Evict(context.Background(), "uid-of-web", short); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 3*time.Second || took > 4*time.Second {
			t.Errorf("it took %v, its own grace being 30 s and the node's 3 s", took)
		}
		if !n.kubelet.Ended("uid-of-web") || len(n.kubelet.Active()) != 0 {
			t.Error("a pod that was evicted is still active")
		}
		n.after(time.Minute)
		pod := n.pod("web")
		if s := pod.Status; s.Phase != corev1.PodFailed || s.Reason != "Evicted" || s.Message != short.Message {
			t.Errorf("status is %s %s %q", s.Phase, s.Reason, s.Message)
		}
		if c := condition(pod, corev1.DisruptionTarget); c == nil || c.Status != corev1.ConditionTrue || c.Reason != "TerminationByKubelet" || c.Message != short.Message {
			t.Errorf("condition is %+v", c)
		}
		if c := condition(pod, corev1.PodReady); c.Status != corev1.ConditionFalse {
			t.Errorf("condition is %+v", c)
		}
		if s := pod.Status.ContainerStatuses[0]; s.State.Terminated == nil || s.RestartCount != 0 {
			t.Errorf("container is %+v", s)
		}

		// Once more, or for another reason, changes nothing.
		other := kubelet.Eviction{Reason: "Other", Message: "other"}
		if err := n.kubelet.Evict(context.Background(), "uid-of-web", other); err != nil {
			t.Error(err)
		}
		n.after(time.Minute)
		if s := n.pod("web").Status; s.Reason != "Evicted" {
			t.Errorf("status is %s %q", s.Reason, s.Message)
		}
		n.remove("web", 0)
		n.after(time.Second)
		n.leftNothing()
	})
}

// TestEvictWhom: evicting pods that do not exist, have ended or are ending.
func TestEvictWhom(t *testing.T) {
	withStatic(t, slow(), func(n *staticNode) {
		if err := n.kubelet.Evict(context.Background(), "nobody", short); err != nil {
			t.Errorf("a pod that is not there: %v", err)
		}
		n.pods.Put(newPod("leaving"))
		n.after(time.Second)
		n.remove("leaving", 30)
		n.after(time.Second)
		if list := n.kubelet.Active(); len(list) != 0 {
			t.Errorf("active are %v", list)
		}
		// It gets no more time than the eviction allows, and is then deleted as requested.
		began := time.Now()
		if err := n.kubelet.Evict(context.Background(), "uid-of-leaving", short); err != nil {
			t.Error(err)
		}
		t.Logf("a pod that was leaving took %v", time.Since(began))
		n.mu.Lock()
		if told := strings.Join(n.changes, ", "); strings.Contains(told, "Evicted") {
			t.Errorf("it is told to be evicted: %s", told)
		}
		n.mu.Unlock()
		n.after(time.Minute)
		if _, there := n.pods.Get("default", "leaving"); there {
			t.Error("a pod that was to be deleted is there after its eviction")
		}
		n.leftNothing()
	})
}

// TestEvictWithinItsOwnGrace: the eviction does not extend the pod's own grace period.
func TestEvictWithinItsOwnGrace(t *testing.T) {
	withStatic(t, slow(), func(n *staticNode) {
		n.pods.Put(newPod("web", func(pod *corev1.Pod) { *pod.Spec.TerminationGracePeriodSeconds = 4 }))
		n.after(time.Second)
		patient := short
		patient.Grace = 60
		began := time.Now()
		if err := n.kubelet.Evict(context.Background(), "uid-of-web", patient); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 4*time.Second || took > 5*time.Second {
			t.Errorf("it took %v, its own grace being 4 s", took)
		}
	})
}

// TestEvictAtOnce: without a grace a pod gets the two seconds that each has. One that has failed and is about to end is
// not to be evicted.
func TestEvictAtOnce(t *testing.T) {
	withStatic(t, slow(), func(n *staticNode) {
		n.pods.Put(newPod("web"))
		n.pods.Put(newPod("late"))
		n.after(time.Second)
		late := n.pod("late").DeepCopy()
		late.Status.Phase = corev1.PodFailed // as somebody else says
		n.pods.Put(late)
		n.after(time.Second)
		if n.kubelet.Ended("uid-of-late") {
			t.Error("it has ended already")
		}
		if list := n.kubelet.Active(); len(list) != 1 || list[0].Name != "web" {
			t.Errorf("active are %v", list)
		}
		began, hasty := time.Now(), short
		hasty.Grace = 0
		if err := n.kubelet.Evict(context.Background(), "uid-of-web", hasty); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 2*time.Second || took >= 3*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// TestEvictGivesUp: the caller's wait ends with its context, and the pod still ends.
func TestEvictGivesUp(t *testing.T) {
	withStatic(t, slow(), func(n *staticNode) {
		n.pods.Put(newPod("web"))
		n.after(time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := n.kubelet.Evict(ctx, "uid-of-web", short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if n.kubelet.Ended("uid-of-web") {
			t.Error("it has ended already")
		}
		if err := n.kubelet.Evict(ctx, "uid-of-web", kubelet.Eviction{Reason: "Other", Grace: 30}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("once more: %v", err)
		}
		n.after(10 * time.Second)
		if s := n.pod("web").Status; s.Phase != corev1.PodFailed || s.Reason != "Evicted" || !n.kubelet.Ended("uid-of-web") {
			t.Errorf("status is %+v", s)
		}
		if c := condition(n.pod("web"), corev1.DisruptionTarget); c == nil || c.Message != short.Message {
			t.Errorf("condition is %+v", c)
		}
	})
}

// TestEvictWhatDoesNotRun: a pod whose containers crash, or that cannot start, fails too.
func TestEvictWhatDoesNotRun(t *testing.T) {
	rt := simulated.Options{Images: []string{"nginx"}, Program: func(simulated.Process) simulated.Program {
		return simulated.Program{Exits: true, ExitCode: 1}
	}, Behave: func(op simulated.Operation) simulated.Outcome {
		return simulated.Outcome{Hang: op.Verb == simulated.PullImage}
	}}
	withStatic(t, rt, func(n *staticNode) {
		n.pods.Put(newPod("crashing"))
		n.pods.Put(newPod("pulling", func(pod *corev1.Pod) { pod.Spec.Containers[0].Image = "hangs" }))
		n.pods.Put(newPod("starting", func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Image, pod.Spec.Containers[0].ImagePullPolicy = "missing", corev1.PullNever
		}))
		n.after(20 * time.Second)
		for _, name := range []string{"crashing", "starting", "pulling"} {
			if err := n.kubelet.Evict(context.Background(), types.UID("uid-of-"+name), short); err != nil {
				t.Error(err)
			}
		}
		n.after(10 * time.Minute)
		for _, name := range []string{"crashing", "starting", "pulling"} {
			pod := n.pod(name)
			if pod.Status.Phase != corev1.PodFailed || pod.Status.Reason != "Evicted" || condition(pod, corev1.DisruptionTarget) == nil {
				t.Errorf("%s: %+v", name, pod.Status)
			}
			for _, s := range pod.Status.ContainerStatuses {
				if s.State.Running != nil || s.State.Terminated == nil {
					t.Errorf("%s: container %+v", name, s.State)
				}
			}
		}
	})
}

// TestEvictedStays: a kubelet that starts later does not revive the pod.
func TestEvictedStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		rt := simulated.New(slow())
		defer rt.Close()
		n := w.runStatic(rt)
		n.pods.Put(newPod("web"))
		n.after(time.Second)
		if err := n.kubelet.Evict(context.Background(), "uid-of-web", short); err != nil {
			t.Fatal(err)
		}
		n.after(time.Second)
		n.stop()
		n = w.runStatic(rt)
		n.after(time.Minute)
		if s := n.pod("web").Status; s.Phase != corev1.PodFailed || s.Reason != "Evicted" {
			t.Errorf("status is %+v", s)
		}
		if slices.ContainsFunc(n.kubelet.Active(), func(pod *corev1.Pod) bool { return pod.Name == "web" }) {
			t.Error("the pod is active")
		}
		n.stop()
	})
}
