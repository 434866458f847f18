package kubelet_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/kubelet"
)

// of returns a container of a pod in the runtime.
func (n *node) of(pod, name string) cri.Container {
	n.t.Helper()
	for _, c := range n.containers() {
		if c.Labels[cri.LabelPodName] == pod && c.Metadata.Name == name {
			return c
		}
	}
	n.t.Fatalf("pod %s has no container %s", pod, name)
	return cri.Container{}
}

// TestResizeAfterAnEnd: a pod that ends makes room for a resize that waits, unlike one that has ended before.
func TestResizeAfterAnEnd(t *testing.T) {
	o := kubelet.Options{Registration: kubelet.Registration{Capacity: quantities("cpu", "2")}}
	simulate(t, simulated.Options{}, o, func(n *node) {
		n.pods.Put(resizable("web", "1"))
		n.pods.Put(newPod("job", func(p *corev1.Pod) {
			p.Spec.RestartPolicy = corev1.RestartPolicyNever
			p.Spec.Containers[0].Resources.Requests = quantities("cpu", "1")
		}))
		n.after(time.Second)
		n.resize("web", cpuOf("2"))
		n.expectResized("web", "PodResizePending=Deferred@2 since 1s given cpu:1, has cpu:1")
		if err := n.runtime.Exit(n.of("job", "main").ID, 0); err != nil {
			t.Fatal(err)
		}
		n.after(5 * time.Second)
		n.expectResized("web", "given cpu:2, has cpu:2")
	})
	var full atomic.Bool
	full.Store(true)
	o.Host.Admitters = []kubelet.Admitter{kubelet.AdmitFunc(func(pod *corev1.Pod) *kubelet.Refusal {
		if full.Load() && pod.Generation > 1 {
			return &kubelet.Refusal{Reason: "Full", Message: "no room"}
		}
		return nil
	})}
	simulate(t, simulated.Options{}, o, func(n *node) {
		n.pods.Put(resizable("web", "1"))
		n.pods.Put(newPod("job", func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyNever }))
		n.after(time.Second)
		if err := n.runtime.Exit(n.of("job", "main").ID, 0); err != nil {
			t.Fatal(err)
		}
		n.after(time.Second)
		n.resize("web", cpuOf("2"))
		full.Store(false)
		n.touch("job")
		n.after(time.Minute)
		n.expectResized("web", "PodResizePending=Deferred@2 since 2s given cpu:1, has cpu:1")
	})
}

// TestResizesAtOnce: of resizes that are requested at once each is decided, and what else has changed counts.
func TestResizesAtOnce(t *testing.T) {
	o := kubelet.Options{Registration: kubelet.Registration{Capacity: quantities("cpu", "4")}}
	simulate(t, simulated.Options{}, o, func(n *node) {
		names := []string{"a", "b", "c"}
		for _, name := range names {
			n.pods.Put(resizable(name, "1"))
		}
		n.after(time.Second)
		for _, name := range names {
			pod := n.pod(name).DeepCopy()
			cpuOf("3")(&pod.Spec)
			pod.Spec.ActiveDeadlineSeconds, pod.Generation = ptr.To[int64](100), 2
			n.pods.Put(pod)
		}
		n.after(5 * time.Second)
		for _, name := range names {
			n.expectResized(name, "PodResizePending=Deferred@2 since 1s given cpu:1, has cpu:1")
			if got := n.pod(name).Status.ObservedGeneration; got != 2 {
				t.Errorf("of %s generation %d is observed", name, got)
			}
		}
		// The one that waits longest is first; it changed again since, in something else.
		n.resize("a", cpuOf("1"))
		n.resize("a", cpuOf("3"))
		n.resize("b", cpuOf("1"))
		n.resize("b", cpuOf("3"))
		n.resize("c", func(s *corev1.PodSpec) { s.ActiveDeadlineSeconds = ptr.To[int64](90) })
		n.expectEventsAbout("ResizeStarted")
		n.remove("b", 1)
		n.after(5 * time.Second)
		n.expectResized("c", "given cpu:3, has cpu:3")
		n.expectResized("a", "PodResizePending=Deferred@4 since 11s given cpu:1, has cpu:1")
		n.expectEventsAbout("ResizeStarted", "31s c Normal ResizeStarted: Pod resize started: "+strings.NewReplacer(`"2"`, `"3"`, `:2`, `:3`).Replace(cpu2)+"}")
	})
}

// TestResizeThatBecomesInfeasible: a resize that waited and turns out to be infeasible is told of, and not tried again
// when there is room.
func TestResizeThatBecomesInfeasible(t *testing.T) {
	var reason atomic.Pointer[string]
	reason.Store(ptr.To("Full"))
	o := kubelet.Options{Registration: kubelet.Registration{Capacity: quantities("cpu", "4")}}
	o.Host.Admitters = []kubelet.Admitter{kubelet.AdmitFunc(func(pod *corev1.Pod) *kubelet.Refusal {
		if why := reason.Load(); *why != "" && pod.Name == "web" && pod.Generation > 1 {
			return &kubelet.Refusal{Reason: *why, Message: "no room"}
		}
		return nil
	})}
	simulate(t, simulated.Options{}, o, func(n *node) {
		n.pods.Put(resizable("web", "1"))
		n.pods.Put(resizable("other", "1"))
		n.pods.Put(resizable("third", "1"))
		n.after(time.Second)
		n.resize("web", cpuOf("2"))
		n.expectResized("web", "PodResizePending=Deferred@2 since 1s given cpu:1, has cpu:1")
		n.resize("other", cpuOf("3")) // so that there is always one that waits
		n.expectEventsAbout("nothing")
		reason.Store(ptr.To(corev1.PodReasonInfeasible))
		n.resize("third", cpuOf("900m"))
		n.expectResized("web", "PodResizePending=Infeasible@2 since 11s given cpu:1, has cpu:1")
		n.expectEventsAbout(" web ", `11s web Warning ResizeInfeasible: Pod resize Infeasible: `+cpu2+`,"error":"no room"}`)
		reason.Store(new(string))
		n.resize("third", cpuOf("800m"))
		n.after(10 * time.Minute)
		n.expectResized("web", "PodResizePending=Infeasible@2 since 11s given cpu:1, has cpu:1")
		n.expectResized("other", "PodResizePending=Deferred@2 since 6s given cpu:1, has cpu:1")
	})
}

// TestResizeOfTheNewest: a pod whose resize is granted later has what else of it has changed meanwhile.
func TestResizeOfTheNewest(t *testing.T) {
	o := kubelet.Options{Registration: kubelet.Registration{Capacity: quantities("cpu", "2")}}
	simulate(t, simulated.Options{}, o, func(n *node) {
		n.pods.Put(resizable("web", "1"))
		n.pods.Put(resizable("other", "1"))
		n.after(time.Second)
		n.resize("web", cpuOf("2"))
		pod := n.pod("web").DeepCopy()
		pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "busybox"}}}
		pod.Generation++
		n.pods.Put(pod)
		n.after(5 * time.Second)
		n.remove("other", 1)
		n.after(5 * time.Second)
		n.expectResized("web", "given cpu:2, has cpu:2")
		status := n.pod("web").Status
		if len(status.EphemeralContainerStatuses) != 1 || status.EphemeralContainerStatuses[0].State.Running == nil || status.ObservedGeneration != 3 {
			t.Errorf("ephemeral containers %v, generation %d", status.EphemeralContainerStatuses, status.ObservedGeneration)
		}
	})
}

// TestResizeOfARequest: a resize of which the runtime need not hear is told of, too.
func TestResizeOfARequest(t *testing.T) {
	simulate(t, simulated.Options{}, kubelet.Options{}, func(n *node) {
		n.pods.Put(resizable("web", "1", func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests["memory"] = quantities("memory", "1Gi")["memory"]
		}))
		n.after(time.Second)
		n.expectEventsAbout("Resize")
		n.resize("web", func(s *corev1.PodSpec) {
			s.Containers[0].Resources.Requests["memory"] = quantities("memory", "2Gi")["memory"]
		})
		n.expectResized("web", "given cpu:1,memory:2Gi, has cpu:1,memory:2Gi")
		n.mu.Lock()
		told := slices.Clone(n.events)
		n.mu.Unlock()
		if len(told) == 0 || !strings.Contains(told[len(told)-1], "ResizeCompleted") {
			t.Errorf("told is %s", strings.Join(told, "\n"))
		}
	})
}

// TestResizeOfWhatDoesNotRun: a resize is complete at once where no container runs that could be resized.
func TestResizeOfWhatDoesNotRun(t *testing.T) {
	simulate(t, simulated.Options{}, kubelet.Options{}, func(n *node) {
		n.pods.Put(newPod("web", func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests = quantities("cpu", "1")
			p.Spec.Containers[0].Image, p.Spec.Containers[0].ImagePullPolicy = "missing", corev1.PullNever
		}))
		n.after(time.Second)
		n.resize("web", cpuOf("2"))
		var told []string
		n.mu.Lock()
		for _, e := range n.events {
			if _, event, ok := strings.Cut(e, " Normal Resize"); ok {
				what, _, _ := strings.Cut(event, ":")
				told = append(told, what)
			}
		}
		n.mu.Unlock()
		if !slices.Equal(told, []string{"Started", "Completed"}) {
			t.Errorf("told is %v", told)
		}
	})
}

// ledger is Cgroups that keeps the CPU of the pods whose groups are made.
type ledger struct {
	*furniture
	mu  sync.Mutex
	cpu []string
}

func (l *ledger) Ensure(_ context.Context, pod *corev1.Pod) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cpu = append(l.cpu, pod.Spec.Containers[0].Resources.Requests.Cpu().String())
	return "", nil
}

// TestGroupsDuringAResize: a pod's group is made for the resources that are in force, not for those that it is to get.
func TestGroupsDuringAResize(t *testing.T) {
	var broken atomic.Bool
	broken.Store(true)
	rt := simulated.Options{Behave: func(o simulated.Operation) simulated.Outcome {
		if broken.Load() && o.Verb == simulated.UpdateResources {
			return simulated.Outcome{Err: errors.New("no such thing")}
		}
		return simulated.Outcome{}
	}}
	l := &ledger{furniture: &furniture{}}
	simulate(t, rt, kubelet.Options{Host: kubelet.Host{Cgroups: l}}, func(n *node) {
		n.pods.Put(resizable("web", "1"))
		n.after(time.Second)
		n.resize("web", cpuOf("2"))
		n.touch("web")
		n.after(time.Minute)
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.cpu) < 2 || slices.Contains(l.cpu, "2") {
			t.Errorf("made for %v", l.cpu)
		}
	})
}
