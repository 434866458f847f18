package kubelet_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/kubelet"
)

// estate is what a host holds for pods, with a record of what was removed and whether anything still ran then.
type estate struct {
	bareVolumes
	bareCgroups
	mu      sync.Mutex
	n       *node
	done    []string
	orphans []types.UID
	busy    map[string]time.Duration // until when it cannot be removed
	tries   int
}

// The parts of a host that these tests do not check.
type (
	bareVolumes struct{}
	bareCgroups struct{}
)

func (bareVolumes) Prepare(context.Context, *corev1.Pod) error { return nil }
func (bareVolumes) Mounts(context.Context, kubelet.MountRequest) ([]cri.Mount, error) {
	return nil, nil
}
func (bareVolumes) NextRefresh(types.UID) time.Time                     { return time.Time{} }
func (bareCgroups) Ensure(context.Context, *corev1.Pod) (string, error) { return "", nil }
func (bareCgroups) Limits(context.Context, *corev1.Pod) (now, want cri.Resources, err error) {
	return now, want, nil
}
func (bareCgroups) Limit(context.Context, *corev1.Pod, cri.Resources) error    { return nil }
func (bareCgroups) Resources(*corev1.Pod, *corev1.Container) (r cri.Resources) { return r }

// set changes it while the node runs.
func (e *estate) set(change func(e *estate)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change(e)
}

func (e *estate) take(what string, uid types.UID) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.n.containers() {
		if c.State == cri.ContainerRunning && c.Labels[cri.LabelPodUID] == string(uid) {
			e.n.t.Errorf("%s of %s are taken away while %s runs", what, uid, c.Metadata.Name)
		}
	}
	e.tries++
	if time.Since(e.n.start) < e.busy[what] {
		return errors.New("device or resource busy")
	}
	e.done = append(e.done, fmt.Sprintf("%s %s of %s", e.n.at(), what, uid))
	return nil
}

func (e *estate) Release(_ context.Context, uid types.UID) error { return e.take("volumes", uid) }
func (e *estate) Remove(_ context.Context, uid types.UID) error  { return e.take("cgroups", uid) }

func (e *estate) Orphans(live func(types.UID) bool) ([]types.UID, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(e.orphans), live), nil
}

func (e *estate) expect(want ...string) {
	e.n.t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if !slices.Equal(e.done, want) {
		e.n.t.Errorf("taken away were:\n\t%s\nwant:\n\t%s", strings.Join(e.done, "\n\t"), strings.Join(want, "\n\t"))
	}
	e.done = nil
}

// withEstate is simulate with a host that holds something for pods.
func withEstate(t *testing.T, rt simulated.Options, test func(n *node, e *estate)) {
	t.Helper()
	e := &estate{}
	simulate(t, rt, kubelet.Options{Host: kubelet.Host{Volumes: e, Cgroups: e}}, func(n *node) {
		e.set(func(e *estate) { e.n = n })
		test(n, e)
	})
}

// TestWhatAPodLeavesIsTakenAway: a pod's volumes and then its cgroups are removed before the pod is deleted.
func TestWhatAPodLeavesIsTakenAway(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		end    func(n *node)
		want   []string
	}{
		"deleted": {end: func(n *node) { n.remove("web", 30) }, want: []string{
			"10s volumes of uid-of-web", "10s cgroups of uid-of-web", // when nothing runs any more
			"10s volumes of uid-of-web", "10s cgroups of uid-of-web", // when it is gone
		}},
		"force-deleted": {end: func(n *node) { n.pods.Delete("default", "web") }, want: []string{
			"10s volumes of uid-of-web", "10s cgroups of uid-of-web", "10s volumes of uid-of-web", "10s cgroups of uid-of-web",
		}},
		"failed": {change: func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(10)) }, want: []string{
			"10s volumes of uid-of-web", "10s cgroups of uid-of-web",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			withEstate(t, simulated.Options{}, func(n *node, e *estate) {
				n.pods.Put(newPod("web", func(p *corev1.Pod) {
					if c.change != nil {
						c.change(p)
					}
				}))
				n.after(10 * time.Second)
				if c.end != nil {
					e.expect()
					c.end(n)
				}
				n.after(5 * time.Second)
				e.expect(c.want...)
			})
		})
	}
}

// TestWhatAPodLeavesStays: while a pod's remains cannot be removed, the pod exists and removal is retried.
func TestWhatAPodLeavesStays(t *testing.T) {
	for _, what := range []string{"volumes", "cgroups"} {
		withEstate(t, simulated.Options{}, func(n *node, e *estate) {
			e.set(func(e *estate) { e.busy = map[string]time.Duration{what: 20 * time.Second} })
			n.pods.Put(newPod("web"))
			n.after(5 * time.Second)
			n.remove("web", 30)
			n.after(14 * time.Second)
			if _, there := n.pods.Get("default", "web"); !there {
				t.Errorf("the pod is gone, and its %s are still there", what)
			}
			e.set(func(e *estate) {
				if e.tries < 10 {
					t.Errorf("tried %d times in 14 s", e.tries)
				}
			})
			n.after(5 * time.Second)
			n.expectStatuses("0s web Running Ready main=running", "5.02s web Running main=Completed(0)",
				"20s web Succeeded main=Completed(0)", "20s web deleted")
			n.leftNothing()
		})
	}
}

// TestWhatARefusedPodLeavesStays: a pod that was rejected, or that had ended before this kubelet, exists as long as
// something of it does.
func TestWhatARefusedPodLeavesStays(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){
		"rejected": func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: "plan9"} },
		"ended":    func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded },
	} {
		withEstate(t, simulated.Options{}, func(n *node, e *estate) {
			e.set(func(e *estate) { e.busy = map[string]time.Duration{"volumes": 20 * time.Second} })
			n.pods.Put(newPod("web", change))
			n.after(time.Second)
			n.remove("web", 30)
			n.after(18 * time.Second)
			if _, there := n.pods.Get("default", "web"); !there {
				t.Errorf("%s: the pod is gone, and its volumes are still there", name)
			}
			n.after(12 * time.Second)
			n.leftNothing()
			if _, there := n.pods.Get("default", "web"); there {
				t.Errorf("%s: the pod is still there", name)
			}
		})
	}
}

// TestEndIsToldInTheEnd: the end of a pod is reported even if its volumes took a while to be removed, and nothing else
// changed when they were.
func TestEndIsToldInTheEnd(t *testing.T) {
	for policy, code := range map[corev1.RestartPolicy]int32{corev1.RestartPolicyNever: 1, corev1.RestartPolicyOnFailure: 0} {
		rt := simulated.Options{Program: func(simulated.Process) simulated.Program {
			return simulated.Program{Exits: true, After: 5 * time.Second, ExitCode: code}
		}}
		withEstate(t, rt, func(n *node, e *estate) {
			e.set(func(e *estate) { e.busy = map[string]time.Duration{"volumes": 20 * time.Second} })
			n.pods.Put(newPod("web", func(p *corev1.Pod) { p.Spec.RestartPolicy = policy }))
			n.after(time.Minute)
			end := map[int32]string{0: "main=Completed(0)", 1: "main=Error(1)"}[code]
			phase := map[int32]string{0: "Succeeded ", 1: "Failed "}[code]
			n.expectStatuses("0s web Running Ready main=running", "5.02s web Running "+end, "20s web "+phase+end)
			sent := n.count("patch pods/status")
			n.after(10 * time.Minute)
			if now := n.count("patch pods/status"); now != sent {
				t.Errorf("%d statuses are sent of a pod that has ended", now-sent)
			}
		})
	}
}

// TestOrphansAreTakenAway: the remains of pods that no longer exist are removed, but nothing of others.
func TestOrphansAreTakenAway(t *testing.T) {
	withEstate(t, simulated.Options{}, func(n *node, e *estate) {
		n.pods.Put(newPod("web"))
		n.after(5 * time.Second)
		e.set(func(e *estate) { e.orphans = []types.UID{"uid-of-web", "uid-of-old"} })
		n.after(20 * time.Second)
		e.expect("20s volumes of uid-of-old", "20s cgroups of uid-of-old")
	})
}

// deaf is a runtime that claims to have stopped containers that still run.
type deaf struct {
	*simulated.Runtime
	until time.Time
}

func (d *deaf) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	if time.Now().Before(d.until) {
		return nil
	}
	return d.Runtime.StopContainer(ctx, id, grace)
}

func (d *deaf) StopPodSandbox(ctx context.Context, id string) error {
	if time.Now().Before(d.until) {
		return nil
	}
	return d.Runtime.StopPodSandbox(ctx, id)
}

// TestStoppedIsWhatDoesNotRun: that a stop succeeds does not prove that the container has ended.
func TestStoppedIsWhatDoesNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		rt := simulated.New(simulated.Options{})
		defer rt.Close()
		e := &estate{}
		n := w.runOn(&deaf{rt, time.Now().Add(38 * time.Second)}, rt, kubelet.Options{Host: kubelet.Host{Volumes: e, Cgroups: e}})
		e.set(func(e *estate) { e.n = n })
		n.after(time.Second) // the first relist is done, and the second one at 20 s finds a change
		w.pods.Put(newPod("web"))
		n.after(4 * time.Second)
		w.remove("web", 30)
		n.after(29 * time.Second)
		w.expectStatuses("1s web Running Ready main=running", "5.02s web Running Ready main=running")
		e.expect()
		n.after(time.Minute)
		w.expectStatuses("40s web Succeeded main=Completed(0)", "40s web deleted")
		n.leftNothing()
		n.stop()
	})
}

// TestStopThatFailsIsTriedAgain: failed stops of containers and sandboxes are retried; the pod stays until they
// succeed.
func TestStopThatFailsIsTriedAgain(t *testing.T) {
	for verb, message := range map[simulated.Verb]string{
		simulated.StopContainer: "error killing pod: stopping container main: no answer", simulated.StopSandbox: "error killing pod: no answer",
	} {
		var well atomic.Bool
		rt := simulated.Options{Behave: func(op simulated.Operation) simulated.Outcome {
			if op.Verb == verb && !well.Load() {
				return simulated.Outcome{Err: errors.New("no answer")}
			}
			return simulated.Outcome{}
		}}
		simulate(t, rt, kubelet.Options{}, func(n *node) {
			n.after(time.Second) // the first relist is done
			n.pods.Put(newPod("web"))
			n.after(4 * time.Second)
			n.remove("web", 30)
			n.after(9 * time.Second)
			n.expectOneEventAbout("FailedKillPod", "5s web Warning FailedKillPod: "+message)
			if _, there := n.pods.Get("default", "web"); !there {
				t.Errorf("%s fails, and the pod is gone", verb)
			}
			well.Store(true)
			n.after(2 * time.Second)
			if _, there := n.pods.Get("default", "web"); there {
				t.Errorf("%s does not fail any more, and the pod is there", verb)
			}
			n.leftNothing()
		})
	}
}

// homeless is a runtime whose sandboxes have no address.
type homeless struct {
	*simulated.Runtime
	made int
}

func (h *homeless) RunPodSandbox(ctx context.Context, config cri.SandboxConfig) (string, error) {
	h.made++
	if h.made > 100 {
		return "", errors.New("enough")
	}
	return h.Runtime.RunPodSandbox(ctx, config)
}

func (h *homeless) SandboxStatus(ctx context.Context, id string) (cri.SandboxStatus, error) {
	status, err := h.Runtime.SandboxStatus(ctx, id)
	status.IPs = nil
	return status, err
}

// TestSandboxThatIsNoGood: an unusable sandbox is replaced, but not without a pause.
func TestSandboxThatIsNoGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		rt := simulated.New(simulated.Options{})
		defer rt.Close()
		h := &homeless{Runtime: rt}
		n := w.runOn(h, rt, kubelet.Options{})
		w.pods.Put(newPod("web"))
		n.after(10 * time.Second)
		if h.made < 3 || h.made > 5 {
			t.Errorf("%d sandboxes in 10 s", h.made)
		}
		n.stop()
	})
}

// TestRefusedWhileItRuns: a kubelet that starts on a node that has shrunk stops pods that do not fit, and reports why.
func TestRefusedWhileItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		rt := simulated.New(slow())
		defer rt.Close()
		asks := func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
		}
		n := w.run(rt, kubelet.Options{})
		w.pods.Put(newPod("web", asks))
		n.after(5 * time.Second)
		n.stop()
		small := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
		node, _ := w.nodes.Get("", "n1")
		node = node.DeepCopy()
		node.Status.Capacity, node.Status.Allocatable = small.DeepCopy(), small.DeepCopy()
		w.nodes.Put(node)
		n = w.run(rt, kubelet.Options{Registration: kubelet.Registration{Capacity: small}})
		n.after(time.Minute)
		w.expectStatuses("0s web Running Ready main=running", "35s web Failed (OutOfcpu)") // and nothing of its end
		status := w.pod("web").Status
		if status.Phase != corev1.PodFailed || status.Reason != "OutOfcpu" {
			t.Errorf("it is %s %s %s", status.Phase, status.Reason, status.Message)
		}
		for _, c := range n.containers() {
			if c.State == cri.ContainerRunning {
				t.Errorf("%s runs", c.Metadata.Name)
			}
		}
		n.stop()
	})
}

// TestWhoTakesRoom: the pod that was created first, and none that is gone from the API.
func TestWhoTakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		rt := simulated.New(slow())
		for name, age := range map[string]time.Duration{"a": time.Minute, "b": 3 * time.Minute, "c": 2 * time.Minute} {
			w.pods.Put(newPod(name, func(p *corev1.Pod) {
				p.CreationTimestamp = metav1.NewTime(time.Now().Add(-age))
				p.Spec.Containers[0].Resources.Requests = quantities("cpu", "2")
			}))
		}
		n := w.run(rt, kubelet.Options{Registration: kubelet.Registration{Capacity: quantities("cpu", "2")}})
		n.after(time.Second)
		w.pods.Delete("default", "b")
		w.pods.Put(newPod("d", func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = quantities("cpu", "2") }))
		n.after(time.Second)
		var got []string
		for _, name := range []string{"a", "c", "d"} {
			got = append(got, name+" "+string(w.pod(name).Status.Phase))
		}
		if strings.Join(got, ", ") != "a Failed, c Failed, d Running" {
			t.Errorf("there are %v", got)
		}
		n.stop()
		rt.Close()
	})
}

// TestRefusedTakesNoRoom: a rejected pod does not occupy resources.
func TestRefusedTakesNoRoom(t *testing.T) {
	o := kubelet.Options{Registration: kubelet.Registration{Capacity: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}}}
	simulate(t, simulated.Options{}, o, func(n *node) {
		for _, c := range [][2]string{{"a-large", "3"}, {"b-fits", "2"}, {"c-late", "1"}} {
			n.pods.Put(newPod(c[0], func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(c[1])}
			}))
		}
		n.after(time.Second)
		for name, want := range map[string]corev1.PodPhase{"a-large": corev1.PodFailed, "b-fits": corev1.PodRunning, "c-late": corev1.PodFailed} {
			if status := n.pod(name).Status; status.Phase != want {
				t.Errorf("%s is %s %s", name, status.Phase, status.Message)
			}
		}
	})
}

// TestLogsGoWithThePod: a pod's logs are removed when it is gone, and not before.
func TestLogsGoWithThePod(t *testing.T) {
	dir := t.TempDir()
	simulate(t, simulated.Options{}, kubelet.Options{Host: kubelet.Host{Logs: kubelet.Logs{Dir: dir}}}, func(n *node) {
		n.pods.Put(newPod("web"))
		n.pods.Put(newPod("other"))
		n.after(time.Second)
		left := func() string {
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Error(err)
			}
			var names []string
			for _, e := range entries {
				names = append(names, e.Name())
			}
			return strings.Join(names, " ")
		}
		if got := left(); got != "default_other_uid-of-other default_web_uid-of-web" {
			t.Errorf("there is %s", got)
		}
		n.remove("web", 30)
		n.after(time.Second)
		if got := left(); got != "default_other_uid-of-other" {
			t.Errorf("left is %s", got)
		}
	})
}

// TestUnknownIsNotStopped: a container in an unknown state does not count as ended.
func TestUnknownIsNotStopped(t *testing.T) {
	var broken atomic.Bool
	rt := simulated.Options{Behave: func(op simulated.Operation) simulated.Outcome {
		if op.Verb == simulated.StopSandbox {
			broken.Store(true)
		}
		if op.Verb == simulated.List && broken.Load() {
			return simulated.Outcome{Err: errors.New("database is locked")}
		}
		return simulated.Outcome{}
	}}
	simulate(t, rt, kubelet.Options{}, func(n *node) {
		n.pods.Put(newPod("web"))
		n.after(5 * time.Second)
		n.remove("web", 30)
		n.after(5 * time.Second)
		n.expectStatuses("0s web Running Ready main=running", "5.02s web Running Ready main=running")
		broken.Store(false)
		n.after(30 * time.Second)
		n.expectStatuses("15s web Succeeded main=Completed(0)", "15s web deleted")
	})
}

// TestGraceCoversEverything: the grace period includes the pre-stop hook and the wait for other containers.
func TestGraceCoversEverything(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	hook := func(h corev1.LifecycleHandler) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &h} }
	}
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		took   int
	}{
		"no hook":           {func(*corev1.Pod) {}, 30},
		"a hook of 10 s":    {hook(corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 10}}), 30},
		"a hook of 29 s":    {hook(corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 29}}), 31}, // at least 2 s
		"a slow hook":       {hook(corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 300}}), 32},
		"a hanging hook":    {hook(corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"hang"}}}), 32},
		"a hook that fails": {hook(corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"fail"}}}), 30},
		"a sidecar that waited": {func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "side", Image: "nginx", RestartPolicy: &always}}
		}, 32},
	} {
		t.Run(name, func(t *testing.T) {
			rt := simulated.Options{
				Behave: func(op simulated.Operation) simulated.Outcome {
					if op.Verb != simulated.Exec {
						return simulated.Outcome{}
					}
					return simulated.Outcome{Hang: op.Command[0] == "hang"}
				},
				Program: func(simulated.Process) simulated.Program {
					return simulated.Program{IgnoresStop: true, Exec: func([]string) cri.ExecResult { return cri.ExecResult{ExitCode: 1} }}
				},
			}
			simulate(t, rt, kubelet.Options{}, func(n *node) {
				n.pods.Put(newPod("web", c.change))
				n.after(5 * time.Second)
				n.remove("web", 30)
				n.after(time.Duration(c.took)*time.Second - 100*time.Millisecond)
				if _, there := n.pods.Get("default", "web"); !there {
					t.Errorf("the pod had less than %d s", c.took)
				}
				n.after(200 * time.Millisecond)
				if _, there := n.pods.Get("default", "web"); there {
					t.Errorf("the pod had more than %d s", c.took)
				}
				var want []string
				if name == "a hook that fails" {
					want = append(want, "5s web spec.containers{main} Warning FailedPreStopHook: PreStopHook failed")
				}
				n.mu.Lock()
				told := slices.DeleteFunc(slices.Clone(n.events), func(e string) bool { return !strings.Contains(e, "PreStopHook") })
				n.mu.Unlock()
				if !slices.Equal(told, want) {
					t.Errorf("told of hooks: %q, want %q", told, want)
				}
			})
		})
	}
}

// TestHookWithoutTime: a sidecar that has waited for all of the grace period has no time left for its pre-stop hook.
func TestHookWithoutTime(t *testing.T) {
	for name, c := range map[string]struct {
		program simulated.Program // of the container that the sidecar waits for
		called  bool
	}{
		"time is left": {simulated.Program{StopAfter: 29 * time.Second}, true},
		"none is left": {simulated.Program{IgnoresStop: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			rt := simulated.Options{Program: func(p simulated.Process) simulated.Program {
				if p.Container.Name == "main" {
					return c.program
				}
				return simulated.Program{}
			}}
			var called atomic.Bool
			hooks := kubelet.ProbeFunc(func(context.Context, kubelet.ProbeTarget) error {
				called.Store(true)
				return nil
			})
			simulate(t, rt, kubelet.Options{Host: kubelet.Host{Hooks: hooks}}, func(n *node) {
				n.pods.Put(newPod("web", func(p *corev1.Pod) {
					p.Spec.InitContainers = []corev1.Container{{Name: "side", Image: "nginx", RestartPolicy: new(corev1.ContainerRestartPolicyAlways),
						Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/end"}}}}}
				}))
				n.after(5 * time.Second)
				n.remove("web", 30)
				n.after(time.Minute)
				n.leftNothing()
			})
			if called.Load() != c.called {
				t.Errorf("the hook was called: %t", called.Load())
			}
		})
	}
}
