package kubelet_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/kubelet"
	"github.com/keelson-dev/keelson/kubelet/decision"
)

func quantities(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

// resizable is a pod with a sidecar, first, without resources, and a container that requests CPU.
func resizable(name string, cpu string, change ...func(*corev1.Pod)) *corev1.Pod {
	return newPod(name, append([]func(*corev1.Pod){func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{{Name: "first", Image: "first:1", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}}
		p.Spec.Containers[0].Resources.Requests = quantities("cpu", cpu)
	}}, change...)...)
}

// resize requests other resources for the pod and its containers.
func (n *node) resize(name string, change func(*corev1.PodSpec)) {
	pod := n.pod(name).DeepCopy()
	change(&pod.Spec)
	pod.Generation++
	n.pods.Put(pod)
	n.after(5 * time.Second)
}

func cpuOf(cpu string) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) { s.Containers[0].Resources.Requests["cpu"] = resource.MustParse(cpu) }
}

// resized renders what a pod's status says of its resources: conditions, then those of the main container that it was
// given and that are in force, and the restarts of the container.
func (n *node) resized(name string) string {
	var words []string
	status := n.pod(name).Status
	for _, c := range status.Conditions {
		if c.Type != corev1.PodResizePending && c.Type != corev1.PodResizeInProgress {
			continue
		}
		words = append(words, fmt.Sprintf("%s=%s@%d since %gs", c.Type, c.Reason, c.ObservedGeneration, c.LastTransitionTime.Sub(n.start).Seconds()))
		if c.Status != corev1.ConditionTrue || c.LastProbeTime.IsZero() {
			n.t.Errorf("the condition is %v", c)
		}
	}
	for _, c := range status.ContainerStatuses {
		if c.Resources == nil {
			words = append(words, "nothing in force")
			continue
		}
		words = append(words, fmt.Sprintf("given %s, has %s", amounts(c.AllocatedResources), amounts(c.Resources.Requests)))
		if len(c.Resources.Limits) > 0 {
			words = append(words, "up to "+amounts(c.Resources.Limits))
		}
		if c.RestartCount > 0 {
			words = append(words, fmt.Sprintf("#%d", c.RestartCount))
		}
	}
	return strings.Join(words, " ")
}

func amounts(list corev1.ResourceList) string {
	var words []string
	for name, q := range list {
		words = append(words, string(name)+":"+q.String())
	}
	slices.Sort(words)
	return strings.Join(words, ",")
}

func (n *node) expectResized(name, want string) {
	n.t.Helper()
	if got := n.resized(name); got != want {
		n.t.Errorf("%s is\n%s, not\n%s", name, got, want)
	}
}

const cpu2 = `{"initContainers":[{"name":"first","resources":{}}],"containers":[{"name":"main","resources":{"requests":{"cpu":"2"}}}],"generation":2`

// TestResize: a resize is carried out without a restart, and its events say so.
func TestResize(t *testing.T) {
	simulate(t, simulated.Options{}, kubelet.Options{}, func(n *node) {
		n.pods.Put(resizable("web", "1"))
		n.after(time.Second)
		n.expectResized("web", "given cpu:1, has cpu:1")
		n.resize("web", cpuOf("2"))
		n.expectResized("web", "given cpu:2, has cpu:2")
		n.expectEventsAbout("Resize",
			"1s web Normal ResizeStarted: Pod resize started: "+cpu2+"}",
			"1s web Normal ResizeCompleted: Pod resize completed: "+cpu2+"}")
		if status := n.pod("web").Status; status.ObservedGeneration != 2 || status.AllocatedResources.Cpu().String() != "2" {
			t.Errorf("generation %d was observed, the pod has %v", status.ObservedGeneration, status.AllocatedResources)
		}
		if len(n.containers()) != 2 {
			t.Errorf("there are %d containers", len(n.containers()))
		}
		if c := n.container("main"); c.Resources.CPUShares != 2048 {
			t.Errorf("the container has %+v", c.Resources)
		}
	})
}

// container returns the newest one of that name in the runtime.
func (n *node) container(name string) cri.ContainerStatus {
	n.t.Helper()
	for _, c := range n.containers() {
		if c.Metadata.Name == name {
			status, err := n.runtime.ContainerStatus(n.t.Context(), c.ID)
			if err != nil {
				n.t.Fatal(err)
			}
			return status
		}
	}
	n.t.Fatalf("there is no container %s", name)
	return cri.ContainerStatus{}
}

// TestResizeWaits: what does not fit waits until others leave, end or shrink, or is withdrawn.
func TestResizeWaits(t *testing.T) {
	const (
		deferred = "PodResizePending=Deferred@2 since 1s given cpu:1, has cpu:1"
		message  = "Node didn't have enough resource: cpu, requested: 2000, used: 1000, capacity: 2000"
	)
	o := kubelet.Options{Registration: kubelet.Registration{Capacity: quantities("cpu", "2")}}
	for name, tt := range map[string]struct {
		then  func(n *node)
		after string
	}{
		"nothing changes": {func(n *node) { n.after(10 * time.Minute) }, deferred},
		"the other leaves": {func(n *node) {
			pod := n.pod("other").DeepCopy()
			pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = ptr.To(metav1.Now()), ptr.To[int64](1)
			n.pods.Put(pod)
			n.after(5 * time.Second)
		}, "given cpu:2, has cpu:2"},
		"the other shrinks": {func(n *node) { n.resize("other", cpuOf("0")) }, "given cpu:2, has cpu:2"},
		"the other shrinks, but not enough": {func(n *node) {
			n.resize("other", cpuOf("500m"))
			if c := condition(n.pod("web"), corev1.PodResizePending); c == nil || c.Message != strings.Replace(message, "used: 1000", "used: 500", 1) {
				n.t.Errorf("it waits because of %v", c)
			}
		}, deferred},
		"it is withdrawn": {func(n *node) { n.resize("web", cpuOf("1")) }, "given cpu:1, has cpu:1"},
		"it is withdrawn, and the other shrinks": {func(n *node) {
			n.resize("web", cpuOf("1"))
			n.resize("other", cpuOf("0"))
		}, "given cpu:1, has cpu:1"},
		"it asks for less":  {func(n *node) { n.resize("web", cpuOf("500m")) }, "given cpu:500m, has cpu:500m"},
		"it asks for other": {func(n *node) { n.resize("web", cpuOf("3")) }, "PodResizePending=Deferred@3 since 1s given cpu:1, has cpu:1"},
		"something else": {func(n *node) {
			n.resize("web", func(s *corev1.PodSpec) { s.ActiveDeadlineSeconds = ptr.To[int64](1000) })
		}, deferred},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, simulated.Options{}, o, func(n *node) {
				n.pods.Put(resizable("web", "1"))
				n.pods.Put(resizable("other", "1"))
				n.after(time.Second)
				n.resize("web", cpuOf("2"))
				n.expectResized("web", deferred)
				n.expectEventsAbout("Resize", "1s web Warning ResizeDeferred: Pod resize Deferred: "+cpu2+`,"error":"`+message+`"}`)
				for _, c := range n.pod("web").Status.Conditions {
					if c.Type == corev1.PodResizePending && c.Message != message {
						t.Errorf("the message is %s", c.Message)
					}
				}
				tt.then(n)
				n.expectResized("web", tt.after)
			})
		})
	}
}

// TestResizeRetry: a resize that has to wait for something that no pod decides is tried again after three minutes.
func TestResizeRetry(t *testing.T) {
	var full sync.Map
	full.Store("yes", true)
	o := kubelet.Options{Host: kubelet.Host{Admitters: []kubelet.Admitter{kubelet.AdmitFunc(func(pod *corev1.Pod) *kubelet.Refusal {
		if yes, _ := full.Load("yes"); yes == true && pod.Generation > 1 {
			return &kubelet.Refusal{Reason: "Full", Message: "no room"}
		}
		return nil
	})}}}
	simulate(t, simulated.Options{}, o, func(n *node) {
		n.pods.Put(resizable("web", "1"))
		n.after(time.Second)
		n.resize("web", cpuOf("2"))
		full.Store("yes", false)
		n.after(170 * time.Second)
		n.expectResized("web", "PodResizePending=Deferred@2 since 1s given cpu:1, has cpu:1")
		n.after(10 * time.Second)
		n.expectResized("web", "given cpu:2, has cpu:2")
	})
}

// TestResizeOrder: when room appears, the pod with the highest priority gets it.
func TestResizeOrder(t *testing.T) {
	o := kubelet.Options{Registration: kubelet.Registration{Capacity: quantities("cpu", "4")}}
	simulate(t, simulated.Options{}, o, func(n *node) {
		n.pods.Put(resizable("low", "1"))
		n.pods.Put(resizable("high", "1", func(p *corev1.Pod) { p.Spec.Priority = ptr.To[int32](5) }))
		n.pods.Put(resizable("other", "2"))
		n.after(time.Second)
		n.resize("low", cpuOf("2"))
		n.resize("high", cpuOf("2"))
		n.expectResized("high", "PodResizePending=Deferred@2 since 6s given cpu:1, has cpu:1")
		n.resize("other", cpuOf("1"))
		n.expectResized("high", "given cpu:2, has cpu:2")
		n.expectResized("low", "PodResizePending=Deferred@2 since 1s given cpu:1, has cpu:1")
	})
}

// TestResizeOfAnything: sidecars and the pod as a whole are resized too.
func TestResizeOfAnything(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*corev1.PodSpec)
		of     string
		want   cri.Resources
	}{
		"the pod": {func(s *corev1.PodSpec) {
			s.Resources = &corev1.ResourceRequirements{Limits: quantities("memory", "1Gi")}
		}, "main", cri.Resources{CPUShares: 1024}},
		"a sidecar": {func(s *corev1.PodSpec) {
			s.InitContainers[0].Resources.Requests = quantities("cpu", "500m")
		}, "first", cri.Resources{CPUShares: 512}},
		"a limit": {func(s *corev1.PodSpec) {
			s.Containers[0].Resources.Limits = quantities("cpu", "5")
		}, "main", cri.Resources{CPUShares: 1024, CPUQuota: 500_000, CPUPeriod: 100_000}},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, simulated.Options{}, kubelet.Options{}, func(n *node) {
				n.pods.Put(resizable("web", "1"))
				n.after(time.Second)
				n.resize("web", tt.change)
				r := n.container(tt.of).Resources
				if got := (cri.Resources{CPUShares: r.CPUShares, CPUQuota: r.CPUQuota, CPUPeriod: r.CPUPeriod, MemoryLimit: r.MemoryLimit}); got.CPUShares != tt.want.CPUShares || got.CPUQuota != tt.want.CPUQuota {
					t.Errorf("%s has %+v, not %+v", tt.of, got, tt.want)
				}
				if got := n.resized("web"); strings.Contains(got, "Resize") {
					t.Error(got)
				}
			})
		})
	}
}

// TestResizeByRestart: a container whose policy says so is restarted, once.
func TestResizeByRestart(t *testing.T) {
	simulate(t, simulated.Options{}, kubelet.Options{}, func(n *node) {
		n.pods.Put(resizable("web", "1", func(p *corev1.Pod) {
			p.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: "cpu", RestartPolicy: corev1.RestartContainer}}
		}))
		n.after(time.Second)
		n.resize("web", cpuOf("2"))
		n.after(time.Minute)
		n.expectResized("web", "given cpu:2, has cpu:2 #1")
		n.expectEventsAbout("Killing", "1s web spec.containers{main} Normal Killing: Container main resize requires restart")
	})
}

// TestResizeFails: a resize that fails is tried again, and its condition and an event say why it failed.
func TestResizeFails(t *testing.T) {
	var broken sync.Map
	broken.Store("yes", true)
	rt := simulated.Options{Behave: func(o simulated.Operation) simulated.Outcome {
		if yes, _ := broken.Load("yes"); yes == true && o.Verb == simulated.UpdateResources {
			return simulated.Outcome{Err: errors.New("no such thing")}
		}
		return simulated.Outcome{}
	}}
	simulate(t, rt, kubelet.Options{}, func(n *node) {
		n.pods.Put(resizable("web", "1"))
		n.after(time.Second)
		n.resize("web", cpuOf("2"))
		n.expectResized("web", "PodResizeInProgress=Error@2 since 1s given cpu:2, has cpu:1")
		n.resize("web", func(s *corev1.PodSpec) { s.ActiveDeadlineSeconds = ptr.To[int64](1000) }) // no other resources
		n.after(30 * time.Second)
		n.expectResized("web", "PodResizeInProgress=Error@2 since 1s given cpu:2, has cpu:1")
		n.expectEventsAbout("ResizeError", "1s web Warning ResizeError: Pod resize error: "+cpu2+`,"error":"no such thing"}`)
		broken.Store("yes", false)
		n.after(10 * time.Second)
		n.expectResized("web", "given cpu:2, has cpu:2")
	})
}

// TestResizeBelowUse: a memory limit does not fall below what is used.
func TestResizeBelowUse(t *testing.T) {
	memory := func(limit string) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) {
			s.Containers[0].Resources.Requests, s.Containers[0].Resources.Limits = quantities("memory", limit), quantities("memory", limit)
		}
	}
	rt := simulated.Options{Program: func(simulated.Process) simulated.Program { return simulated.Program{Memory: 50 << 20} }}
	simulate(t, rt, kubelet.Options{}, func(n *node) {
		n.pods.Put(newPod("web", func(p *corev1.Pod) { memory("100Mi")(&p.Spec) }))
		n.after(time.Second)
		n.resize("web", memory("40Mi"))
		n.expectResized("web", "PodResizeInProgress=Error@2 since 1s given memory:40Mi, has memory:100Mi up to memory:100Mi")
		for _, c := range n.pod("web").Status.Conditions {
			const want = `cannot decrease memory limits: attempting to set container "main" memory limit (41943040) below current usage (52428800)`
			if c.Type == corev1.PodResizeInProgress && c.Message != want {
				t.Errorf("the message is %s", c.Message)
			}
		}
		n.resize("web", memory("60Mi"))
		n.after(10 * time.Second)
		n.expectResized("web", "given memory:60Mi, has memory:60Mi up to memory:60Mi")
	})
}

// still is a runtime that cannot resize containers.
type still struct{ kubelet.Runtime }

// TestResizeIsInfeasible: where the runtime cannot resize containers, a resize is refused, until another is asked for.
func TestResizeIsInfeasible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		rt := simulated.New(simulated.Options{})
		n := w.runOn(still{rt}, rt, kubelet.Options{})
		n.after(time.Second)
		n.pods.Put(resizable("web", "1"))
		n.after(time.Second)
		n.resize("web", cpuOf("2"))
		n.expectResized("web", "PodResizePending=Infeasible@2 since 2s given cpu:1, has cpu:1")
		n.expectEventsAbout("Resize", "2s web Warning ResizeInfeasible: Pod resize Infeasible: "+cpu2+`,"error":"In-place pod resize is not supported on this node"}`)
		n.resize("web", cpuOf("3"))
		n.expectResized("web", "PodResizePending=Infeasible@3 since 2s given cpu:1, has cpu:1")
		n.expectEventsAbout("Resize", "7s web Warning ResizeInfeasible: Pod resize Infeasible: "+
			strings.NewReplacer(`"2"`, `"3"`, `:2`, `:3`).Replace(cpu2)+`,"error":"In-place pod resize is not supported on this node"}`)
		n.resize("web", cpuOf("1"))
		n.expectResized("web", "given cpu:1, has cpu:1")
		n.stop()
		rt.Close()
	})
}

// records is a memory that outlives kubelets.
type records struct {
	kubelet.Memory
	mu      sync.Mutex
	given   map[types.UID]decision.Allocation
	inForce map[types.UID]*decision.Allocation
}

func (r *records) Allocation(uid types.UID) (decision.Allocation, *decision.Allocation, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, ok := r.given[uid]
	return a, r.inForce[uid], ok
}

func (r *records) Admitted(uid types.UID) bool {
	_, _, ok := r.Allocation(uid)
	return ok
}

func (r *records) Admit(pods ...*corev1.Pod) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, pod := range pods {
		r.given[pod.UID] = decision.AllocationOf(&pod.Spec)
	}
	return nil
}

func (r *records) Resize(pod *corev1.Pod) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inForce[pod.UID] == nil {
		before := r.given[pod.UID].Clone()
		r.inForce[pod.UID] = &before
	}
	r.given[pod.UID] = decision.AllocationOf(&pod.Spec)
	return nil
}

func (r *records) SetInForce(uid types.UID, a *decision.Allocation) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inForce[uid] = a
	return nil
}

func (r *records) Waits(types.UID) map[string]kubelet.Wait               { return nil }
func (r *records) SetWait(types.UID, string, kubelet.Wait) error         { return nil }
func (r *records) Forget(...types.UID) error                             { return nil }
func (r *records) Orphans(func(types.UID) bool) (u []types.UID, e error) { return nil, nil }

// TestResizeOutlivesTheKubelet: the next kubelet knows what a pod was given and what is in force, from its records or
// from the API.
func TestResizeOutlivesTheKubelet(t *testing.T) {
	for name, memory := range map[string]func() kubelet.Memory{
		"records": func() kubelet.Memory {
			return &records{given: map[types.UID]decision.Allocation{}, inForce: map[types.UID]*decision.Allocation{}}
		},
		"the API": func() kubelet.Memory { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			var broken sync.Map
			rt := simulated.Options{Behave: func(o simulated.Operation) simulated.Outcome {
				if yes, _ := broken.Load("yes"); yes == true && o.Verb == simulated.UpdateResources {
					return simulated.Outcome{Err: errors.New("no such thing")}
				}
				return simulated.Outcome{}
			}}
			o := kubelet.Options{Registration: kubelet.Registration{Capacity: quantities("cpu", "2")}, Host: kubelet.Host{Memory: memory()}}
			simulate(t, rt, o, func(n *node) {
				n.pods.Put(resizable("web", "1"))
				n.pods.Put(resizable("other", "1"))
				n.after(time.Second)
				n.resize("web", cpuOf("2"))
				broken.Store("yes", true)
				n.resize("other", cpuOf("500m"))
				n.stop()
				if name == "records" { // which know what the API has not heard yet
					web := n.pod("web").DeepCopy()
					for i := range web.Status.ContainerStatuses {
						web.Status.ContainerStatuses[i].AllocatedResources, web.Status.ContainerStatuses[i].Resources = nil, nil
					}
					n.pods.Put(web)
				}
				next := n.run(n.runtime, o)
				next.after(5 * time.Second)
				next.expectResized("web", "PodResizePending=Deferred@2 since 1s given cpu:1, has cpu:1")
				next.expectResized("other", "PodResizeInProgress=Error@2 since 6s given cpu:500m, has cpu:1")
				broken.Store("yes", false)
				next.after(time.Minute)
				next.expectResized("other", "given cpu:500m, has cpu:500m")
				next.resize("web", cpuOf("1500m"))
				next.expectResized("web", "given cpu:1500m, has cpu:1500m")
				next.stop()
				if r, ok := o.Host.Memory.(*records); ok {
					for uid, a := range r.inForce {
						if a != nil {
							t.Errorf("of %s something else than what it was given is still recorded to be in force", uid)
						}
					}
				}
			})
		})
	}
}

// TestResizeMakesRoomForNobody: admission of other pods counts the resources that the pod has, not those it requests.
func TestResizeMakesRoomForNobody(t *testing.T) {
	capacity := kubelet.Registration{Capacity: quantities("cpu", "2")}
	simulate(t, simulated.Options{}, kubelet.Options{Registration: capacity}, func(n *node) {
		n.pods.Put(resizable("web", "1"))
		n.after(time.Second)
		n.resize("web", cpuOf("3"))
		n.pods.Put(resizable("other", "1"))
		n.after(5 * time.Second)
		if status := n.pod("other").Status; status.Phase != corev1.PodRunning {
			t.Errorf("the other is %s, %s", status.Phase, status.Message)
		}
	})
}
