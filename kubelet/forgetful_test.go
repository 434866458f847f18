package kubelet_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/kubelet"
	"github.com/keelson-dev/keelson/kubelet/decision"
)

// scales are Cgroups that have limits, and that fail.
type scales struct {
	*furniture
	mu        sync.Mutex
	now, want cri.Resources
	limits    error // of Limits
	limit     error // of Limit
	set       []cri.Resources
}

func (s *scales) Limits(context.Context, *corev1.Pod) (now, want cri.Resources, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now, s.want, s.limits
}

func (s *scales) Limit(_ context.Context, _ *corev1.Pod, r cri.Resources) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.limit == nil {
		s.set = append(s.set, r)
	}
	return s.limit
}

func (s *scales) fail(limits, limit error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limits, s.limit = limits, limit
}

// TestResizeStepsThatFail: whatever step of a resize fails, its condition says so, and the resize is tried again.
func TestResizeStepsThatFail(t *testing.T) {
	for name, c := range map[string]struct {
		limits, limit error
		method        string
		err           error
		message       string // of the condition, or empty if the resize succeeds
	}{
		"limits that cannot be read":    {limits: errOnFire, message: `unable to get pod cgroup memory config for pod "web_default(uid-of-web)": disk on fire`},
		"limits that cannot be set":     {limit: errOnFire, message: "disk on fire"},
		"use that cannot be read":       {method: "ListContainerStats", err: errOnFire, message: `unable to read memory usage for pod "web_default(uid-of-web)"`},
		"use of pods":                   {method: "ListSandboxStats", err: errOnFire, message: `unable to read memory usage for pod "web_default(uid-of-web)"`},
		"use of pods that has no count": {method: "ListSandboxStats", err: cri.ErrUnsupported},
		"nothing":                       {},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scales{furniture: &furniture{}, now: cri.Resources{MemoryLimit: 4 << 30}, want: cri.Resources{MemoryLimit: 2 << 30}}
			withFaults(t, simulated.Options{}, kubelet.Host{Cgroups: s}, func(n *node, f *faulty, _ *[]string) {
				s.fail(errOnFire, errOnFire) // of which a pod that is not resized hears nothing
				n.pods.Put(resizable("web", "1"))
				n.after(time.Second)
				n.expectEventsAbout("Resize")
				f.breaks(c.method, c.err)
				s.fail(c.limits, c.limit)
				n.resize("web", func(s *corev1.PodSpec) {
					s.Resources = &corev1.ResourceRequirements{Limits: quantities("memory", "2Gi")}
				})
				message := ""
				if condition := condition(n.pod("web"), corev1.PodResizeInProgress); condition != nil {
					message = condition.Message
				}
				if message != c.message {
					t.Errorf("the condition says %q", message)
				}
				f.breaks("", nil)
				s.fail(nil, nil)
				n.after(10 * time.Second)
				if condition := condition(n.pod("web"), corev1.PodResizeInProgress); condition != nil {
					t.Errorf("there is %v", condition)
				}
				if len(s.set) != 1 || s.set[0].MemoryLimit != 2<<30 {
					t.Errorf("limits were set to %+v", s.set)
				}
			})
		})
	}
}

// TestResizeBelowUseOfContainers: where only containers are measured, a pod's limit does not fall below their sum.
func TestResizeBelowUseOfContainers(t *testing.T) {
	rt := simulated.Options{Program: func(simulated.Process) simulated.Program { return simulated.Program{Memory: 2 << 30} }}
	s := &scales{furniture: &furniture{}, now: cri.Resources{MemoryLimit: 4 << 30}, want: cri.Resources{MemoryLimit: 3 << 30}}
	withFaults(t, rt, kubelet.Host{Cgroups: s}, func(n *node, f *faulty, _ *[]string) {
		f.breaks("ListSandboxStats", cri.ErrUnsupported)
		n.pods.Put(resizable("web", "1"))
		n.after(time.Second)
		n.resize("web", func(s *corev1.PodSpec) {
			s.Resources = &corev1.ResourceRequirements{Limits: quantities("memory", "3Gi")}
		})
		if c := condition(n.pod("web"), corev1.PodResizeInProgress); c == nil || !strings.HasSuffix(c.Message, "memory limit (3221225472) below current usage (4294967296)") {
			t.Errorf("the condition is %v", c)
		}
	})
}

// measured is a runtime that does not resize, but measures.
type measured struct {
	cri.RuntimeService
	cri.ImageService
	cri.StatsReader
}

// counted is one that resizes, but does not measure.
type counted struct {
	cri.RuntimeService
	cri.ImageService
	cri.Resizer
}

// TestResizeWithoutMeasure: a memory limit that falls is refused by a runtime that does not know how much is used.
func TestResizeWithoutMeasure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		rt := simulated.New(simulated.Options{})
		n := w.runOn(counted{rt, rt, rt}, rt, kubelet.Options{})
		memory := func(limit string) func(*corev1.PodSpec) {
			return func(s *corev1.PodSpec) { s.Containers[0].Resources.Limits = quantities("memory", limit) }
		}
		n.pods.Put(newPod("web", func(p *corev1.Pod) { memory("1Gi")(&p.Spec) }))
		n.after(2 * time.Second)
		n.resize("web", memory("512Mi"))
		if c := condition(n.pod("web"), corev1.PodResizeInProgress); c == nil || c.Message != `unable to read memory usage for pod "web_default(uid-of-web)"` {
			t.Errorf("the condition is %v", c)
		}
		n.resize("web", memory("2Gi"))
		n.after(10 * time.Second)
		if c := condition(n.pod("web"), corev1.PodResizeInProgress); c != nil {
			t.Errorf("the condition is %v", c)
		}
		n.stop()
		rt.Close()
	})
}

// TestResizeByTheNext: a kubelet that finds resources that are not in force, of which nobody has told the API, puts them
// in force if its runtime can.
func TestResizeByTheNext(t *testing.T) {
	for _, able := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			rt := simulated.New(simulated.Options{})
			memory := &records{given: map[types.UID]decision.Allocation{}, inForce: map[types.UID]*decision.Allocation{}}
			o := kubelet.Options{Host: kubelet.Host{Memory: memory}}
			n := w.run(rt, o)
			n.pods.Put(resizable("web", "2"))
			n.after(5 * time.Second)
			n.stop()
			before := memory.given["uid-of-web"].Clone()
			r := before.Containers["main"]
			r.Requests = quantities("cpu", "1")
			before.Containers["main"] = r
			memory.inForce["uid-of-web"] = &before
			if able {
				n = w.run(rt, o)
			} else {
				n = w.runOn(measured{rt, rt, rt}, rt, o)
			}
			n.expectEventsAbout("nothing")
			n.after(2 * time.Second)
			if able {
				n.expectResized("web", "given cpu:2, has cpu:2")
				n.expectOneEventAbout("Resize", "5s web Normal ResizeCompleted: Pod resize completed: "+strings.Replace(cpu2, `"generation":2`, `"generation":1`, 1)+"}")
			} else if c := condition(n.pod("web"), corev1.PodResizeInProgress); c == nil || c.Message != "container main cannot be updated: "+cri.ErrUnsupported.Error() {
				t.Errorf("the condition is %v", c)
			}
			n.stop()
			rt.Close()
		})
	}
}

// TestResizeThatIsInterrupted: a resize that ends with its pod has not failed.
func TestResizeThatIsInterrupted(t *testing.T) {
	rt := simulated.Options{Behave: func(op simulated.Operation) simulated.Outcome {
		return simulated.Outcome{Hang: op.Verb == simulated.UpdateResources}
	}}
	simulate(t, rt, kubelet.Options{}, func(n *node) {
		n.pods.Put(resizable("web", "1"))
		n.after(time.Second)
		n.resize("web", cpuOf("2"))
		n.remove("web", 5)
		n.after(10 * time.Second)
		n.expectEventsAbout("ResizeError")
		n.leftNothing()
	})
}

// TestResizeOfWhatEnds: a pod that ends is given nothing more.
func TestResizeOfWhatEnds(t *testing.T) {
	for name, end := range map[string]func(n *staticNode){
		"deleted": func(n *staticNode) { n.remove("web", 60) },
		"evicted": func(n *staticNode) {
			ctx, cancel := context.WithTimeout(n.t.Context(), time.Millisecond)
			defer cancel()
			long := short
			long.Grace = 60
			_ = n.kubelet.Evict(ctx, "uid-of-web", long)
		},
		"failed, as somebody says": func(n *staticNode) {
			pod := n.pod("web").DeepCopy()
			pod.Status.Phase = corev1.PodFailed
			n.pods.Put(pod)
		},
	} {
		t.Run(name, func(t *testing.T) {
			withStatic(t, slow(), func(n *staticNode) {
				n.pods.Put(resizable("web", "1"))
				n.after(time.Second)
				end(n)
				n.after(time.Second)
				n.resize("web", cpuOf("2"))
				n.expectEventsAbout("Resize")
				n.expectResized("web", "given cpu:1, has cpu:1")
			})
		})
	}
}

// heavy is a runtime whose pods use more than their containers do.
type heavy struct{ *simulated.Runtime }

func (h heavy) ListSandboxStats(ctx context.Context, filter cri.Filter) ([]cri.SandboxStats, error) {
	list, err := h.Runtime.ListSandboxStats(ctx, filter)
	for i := range list {
		list[i].Memory.Usage += 1 << 30
	}
	return list, err
}

// TestResizeBelowUseOfThePod: a pod's limit does not fall below what the pod as a whole uses.
func TestResizeBelowUseOfThePod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		rt := simulated.New(simulated.Options{Program: func(simulated.Process) simulated.Program { return simulated.Program{Memory: 1 << 30} }})
		s := &scales{furniture: &furniture{}, now: cri.Resources{MemoryLimit: 4 << 30}, want: cri.Resources{MemoryLimit: 5 << 29}}
		n := w.runOn(heavy{rt}, rt, kubelet.Options{Host: kubelet.Host{Cgroups: s}})
		n.pods.Put(resizable("web", "1"))
		n.after(2 * time.Second)
		n.resize("web", func(s *corev1.PodSpec) {
			s.Resources = &corev1.ResourceRequirements{Limits: quantities("memory", "2560Mi")}
		})
		if c := condition(n.pod("web"), corev1.PodResizeInProgress); c == nil || !strings.HasSuffix(c.Message, "memory limit (2684354560) below current usage (3221225472)") {
			t.Errorf("the condition is %v", c)
		}
		n.stop()
		rt.Close()
	})
}

// forgetful is a memory that cannot write.
type forgetful struct{ records }

func (*forgetful) Admit(...*corev1.Pod) error                       { return errors.New("admission") }
func (*forgetful) Resize(*corev1.Pod) error                         { return errors.New("resize") }
func (*forgetful) SetInForce(types.UID, *decision.Allocation) error { return errors.New("in force") }
func (*forgetful) SetWait(types.UID, string, kubelet.Wait) error    { return errors.New("wait") }
func (*forgetful) Orphans(func(types.UID) bool) ([]types.UID, error) {
	return []types.UID{"old"}, errors.New("orphans")
}
func (*forgetful) Forget(...types.UID) error                      { return errors.New("forget") }
func (*forgetful) Admitted(types.UID) bool                        { return false }
func (*forgetful) Waits(types.UID) (none map[string]kubelet.Wait) { return nil }

// TestMemoryThatFails: a kubelet whose memory cannot write goes on, and logs what was not written.
func TestMemoryThatFails(t *testing.T) {
	rt := simulated.Options{Program: func(p simulated.Process) simulated.Program {
		return simulated.Program{Exits: p.Pod.Name == "crashing", After: time.Second}
	}}
	withFaults(t, rt, kubelet.Host{Memory: &forgetful{}}, func(n *node, _ *faulty, lines *[]string) {
		n.pods.Put(newPod("crashing"))
		n.pods.Put(resizable("web", "1"))
		n.after(2 * time.Second)
		n.resize("web", cpuOf("2"))
		n.expectResized("web", "given cpu:2, has cpu:2")
		n.after(20 * time.Second)
		slices.Sort(*lines)
		const want = "0s finding what pods left behind failed: orphans, 0s releasing what a pod left behind failed: forget, " +
			"1s the checkpoint of admitted pods was not written: admission, 20s finding what pods left behind failed: orphans, 20s releasing what a pod left behind failed: forget, " +
			"2s the back-off of a failing container was not recorded: wait, 13s the back-off of a failing container was not recorded: wait, " +
			"3s the checkpoint of a resize was not written: in force, 3s the checkpoint of a resize was not written: resize"
		sorted := strings.Split(want, ", ")
		slices.Sort(sorted)
		if got := slices.Compact(*lines); !slices.Equal(got, sorted) {
			t.Errorf("logged is\n%s, not\n%s", strings.Join(got, "\n"), strings.Join(sorted, "\n"))
		}
	})
}

// stubborn are devices that cannot be given back, or told apart.
type stubborn struct {
	*gpus
	mu          sync.Mutex
	of, release error
}

func (s *stubborn) fail(of, release error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of, s.release = of, release
}

func (s *stubborn) CDIDevices(*corev1.Pod, *corev1.Container) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return nil, s.of
}

func (s *stubborn) Release(context.Context, types.UID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.release
}

// TestDevicesThatFail: without its devices a container does not run, and until they are given back its pod stays.
func TestDevicesThatFail(t *testing.T) {
	s := &stubborn{gpus: &gpus{}, of: errOnFire}
	withFaults(t, simulated.Options{}, kubelet.Host{Devices: kubelet.Devices{Claims: s}}, func(n *node, _ *faulty, _ *[]string) {
		n.pods.Put(newPod("web", withClaim))
		n.after(time.Second)
		n.expectStatuses("1s web Pending main=CreateContainerConfigError")
		s.fail(nil, errOnFire)
		n.after(20 * time.Second)
		n.remove("web", 1)
		n.after(10 * time.Second)
		n.pod("web") // is there
		s.fail(nil, nil)
		n.after(2 * time.Second)
		n.leftNothing()
	})
}

// TestResizeIsRecordedStepByStep: if only one of two resources could be set, the next kubelet knows which.
func TestResizeIsRecordedStepByStep(t *testing.T) {
	var mu sync.Mutex
	calls := 0
	rt := simulated.Options{Behave: func(op simulated.Operation) simulated.Outcome {
		if op.Verb != simulated.UpdateResources {
			return simulated.Outcome{}
		}
		mu.Lock()
		defer mu.Unlock()
		if calls++; calls > 1 {
			return simulated.Outcome{Err: errOnFire}
		}
		return simulated.Outcome{}
	}}
	memory := &records{given: map[types.UID]decision.Allocation{}, inForce: map[types.UID]*decision.Allocation{}}
	simulate(t, rt, kubelet.Options{Host: kubelet.Host{Memory: memory}}, func(n *node) {
		n.pods.Put(newPod("web", func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests = quantities("cpu", "1", "memory", "1Gi")
			p.Spec.Containers[0].Resources.Limits = quantities("memory", "1Gi")
		}))
		n.after(time.Second)
		n.resize("web", func(s *corev1.PodSpec) {
			s.Containers[0].Resources.Requests = quantities("cpu", "2", "memory", "2Gi")
			s.Containers[0].Resources.Limits = quantities("memory", "2Gi")
		})
		got := memory.inForce["uid-of-web"].Containers["main"].Requests
		if got.Cpu().String() != "1" || got.Memory().String() != "2Gi" {
			t.Errorf("recorded are %v", got)
		}
	})
}
