package kubelet_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
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

// faulty is a runtime whose calls fail for a while.
type faulty struct {
	*simulated.Runtime
	mu     sync.Mutex
	method string
	err    error
	calls  int // that failed
}

// breaks makes a method fail with an error; nil mends it.
func (f *faulty) breaks(method string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.method, f.err, f.calls = method, err, 0
}

func (f *faulty) failed() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

func (f *faulty) called(method string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if method != f.method || f.err == nil {
		return nil
	}
	f.calls++
	return f.err
}

func (f *faulty) Version(ctx context.Context) (cri.Version, error) {
	if err := f.called("Version"); err != nil {
		return cri.Version{}, err
	}
	return f.Runtime.Version(ctx)
}

func (f *faulty) ListSandboxes(ctx context.Context, filter cri.Filter) ([]cri.Sandbox, error) {
	if err := f.called("ListSandboxes"); err != nil {
		return nil, err
	}
	return f.Runtime.ListSandboxes(ctx, filter)
}

func (f *faulty) ListContainers(ctx context.Context, filter cri.Filter) ([]cri.Container, error) {
	if err := f.called("ListContainers"); err != nil {
		return nil, err
	}
	return f.Runtime.ListContainers(ctx, filter)
}

func (f *faulty) SandboxStatus(ctx context.Context, id string) (cri.SandboxStatus, error) {
	if err := f.called("SandboxStatus"); err != nil {
		return cri.SandboxStatus{}, err
	}
	return f.Runtime.SandboxStatus(ctx, id)
}

func (f *faulty) ContainerStatus(ctx context.Context, id string) (cri.ContainerStatus, error) {
	if err := f.called("ContainerStatus"); err != nil {
		return cri.ContainerStatus{}, err
	}
	return f.Runtime.ContainerStatus(ctx, id)
}

func (f *faulty) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	if err := f.called("StopContainer"); err != nil {
		return err
	}
	return f.Runtime.StopContainer(ctx, id, grace)
}

func (f *faulty) StopPodSandbox(ctx context.Context, id string) error {
	if err := f.called("StopPodSandbox"); err != nil {
		return err
	}
	return f.Runtime.StopPodSandbox(ctx, id)
}

func (f *faulty) RemovePodSandbox(ctx context.Context, id string) error {
	if err := f.called("RemovePodSandbox"); err != nil {
		return err
	}
	return f.Runtime.RemovePodSandbox(ctx, id)
}

func (f *faulty) RemoveContainer(ctx context.Context, id string) error {
	if err := f.called("RemoveContainer"); err != nil {
		return err
	}
	return f.Runtime.RemoveContainer(ctx, id)
}

func (f *faulty) Events(ctx context.Context) (cri.EventStream, error) {
	if err := f.called("Events"); err != nil {
		return nil, err
	}
	stream, err := f.Runtime.Events(ctx)
	return &fragile{stream, f}, err
}

func (f *faulty) ListContainerStats(ctx context.Context, filter cri.Filter) ([]cri.ContainerStats, error) {
	if err := f.called("ListContainerStats"); err != nil {
		return nil, err
	}
	return f.Runtime.ListContainerStats(ctx, filter)
}

func (f *faulty) ListSandboxStats(ctx context.Context, filter cri.Filter) ([]cri.SandboxStats, error) {
	if err := f.called("ListSandboxStats"); err != nil {
		return nil, err
	}
	return f.Runtime.ListSandboxStats(ctx, filter)
}

// fragile is a stream that breaks off as soon as new ones fail and it has something to tell.
type fragile struct {
	cri.EventStream
	f *faulty
}

func (s *fragile) Next(ctx context.Context) ([]cri.Event, error) {
	list, err := s.EventStream.Next(ctx)
	if broken := s.f.called("Events"); broken != nil {
		return nil, broken
	}
	return list, err
}

var errOnFire = errors.New("disk on fire")

// withFaults runs a test with a kubelet on such a runtime, and what it logs.
func withFaults(t *testing.T, o simulated.Options, host kubelet.Host, test func(n *node, f *faulty, lines *[]string)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		f := &faulty{Runtime: simulated.New(o)}
		var lines []string
		n := w.runOn(f, f.Runtime, kubelet.Options{Host: host, Logger: logger(w, &lines)})
		n.after(time.Second) // the first relist is done
		test(n, f, &lines)
		n.stop()
		f.Close()
	})
}

// touch changes something about a pod.
func (n *node) touch(name string) {
	pod := n.pod(name).DeepCopy()
	pod.Annotations = map[string]string{"touched": n.at()}
	n.pods.Put(pod)
}

// TestWhatCannotBeObserved: while a pod cannot be observed, nothing is done with it.
func TestWhatCannotBeObserved(t *testing.T) {
	for _, method := range []string{"ListSandboxes", "ListContainers", "SandboxStatus", "ContainerStatus"} {
		t.Run(method, func(t *testing.T) {
			withFaults(t, simulated.Options{}, kubelet.Host{}, func(n *node, f *faulty, lines *[]string) {
				n.pods.Put(newPod("web"))
				n.after(time.Second)
				n.expectStatuses("1s web Running Ready main=running")
				n.expectEventsAbout("nothing")
				f.breaks(method, errOnFire)
				n.touch("web")
				n.after(time.Second)
				n.expectEvents("2s web Warning FailedSync: error determining status: disk on fire")
				f.breaks("", nil)
				n.after(30 * time.Second)
				n.expectStatuses()
				n.expectEvents()
				if len(n.containers()) != 1 {
					t.Errorf("there are %d containers", len(n.containers()))
				}
				// While it ends, it is not known to have ended.
				n.remove("web", 30)
				f.breaks(method, errOnFire)
				n.after(2 * time.Second)
				if _, there := n.pods.Get("default", "web"); !there {
					t.Error("the pod is gone")
				}
				f.breaks("", nil)
				n.after(30 * time.Second)
				n.leftNothing()
			})
		})
	}
}

// TestWhatIsGoneWhenItIsObserved: what goes between two calls counts as gone.
func TestWhatIsGoneWhenItIsObserved(t *testing.T) {
	for _, method := range []string{"SandboxStatus", "ContainerStatus"} {
		withFaults(t, simulated.Options{}, kubelet.Host{}, func(n *node, f *faulty, _ *[]string) {
			n.pods.Put(newPod("web"))
			n.after(time.Second)
			f.breaks(method, cri.ErrNotFound)
			n.remove("web", 30)
			n.after(5 * time.Second)
			n.expectEventsAbout("Failed")
			if f.failed() == 0 {
				t.Errorf("%s was not called", method)
			}
			n.leftNothing()
		})
	}
}

// TestRuntimeThatStartsLate: a kubelet waits for its runtime.
func TestRuntimeThatStartsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		f := &faulty{Runtime: simulated.New(simulated.Options{})}
		f.breaks("Version", errOnFire)
		var lines []string
		n := w.runOn(f, f.Runtime, kubelet.Options{Logger: logger(w, &lines)})
		w.pods.Put(newPod("web"))
		n.after(1500 * time.Millisecond)
		if got := strings.Join(lines, ", "); got != "0s the container runtime does not answer: disk on fire, 1s the container runtime does not answer: disk on fire" {
			t.Errorf("logged is %s", got)
		}
		n.expectEvents()
		f.breaks("", nil)
		n.after(time.Second)
		n.expectStatuses("2s web Running Ready main=running")
		n.stop()
		n.expectEventsAbout("nothing")
		f.breaks("Version", errOnFire)
		n = w.runOn(f, f.Runtime, kubelet.Options{})
		n.after(time.Second)
		n.stop() // before it has begun
		n.expectEvents()
		f.Close()
	})
}

// TestEventsThatBreakOff: while the runtime's events are missing, the node's status is looked at at once, and afterwards
// what was missed.
func TestEventsThatBreakOff(t *testing.T) {
	withFaults(t, simulated.Options{}, kubelet.Host{}, func(n *node, f *faulty, lines *[]string) {
		n.pods.Put(newPod("web"))
		n.pods.Put(newPod("other"))
		n.after(time.Second)
		n.expectStatuses("1s other Running Ready main=running", "1s web Running Ready main=running")
		ready := cri.Condition{Ready: true}
		n.runtime.SetStatus(cri.RuntimeStatus{Runtime: ready, Network: cri.Condition{Reason: "Away"}})
		n.after(10 * time.Millisecond)
		f.breaks("Events", errOnFire)
		for _, c := range n.containers() {
			if err := n.runtime.Exit(c.ID, 1); err != nil {
				t.Fatal(err)
			}
		}
		n.after(time.Millisecond)
		if got := conditions(n.node())[3]; !strings.HasPrefix(got, "Ready=False") {
			t.Errorf("the node is %s", got)
		}
		n.after(2 * time.Second)
		n.runtime.SetStatus(cri.RuntimeStatus{Runtime: ready, Network: ready})
		n.expectStatuses()
		f.breaks("", nil)
		n.after(time.Second)
		n.expectStatuses("5.01s other Running Ready main=running#1", "5.01s web Running Ready main=running#1")
		if got := conditions(n.node())[3]; !strings.HasPrefix(got, "Ready=True") {
			t.Errorf("the node is %s", got)
		}
		if got := strings.Join(*lines, ", "); got != "2.01s the container runtime's events broke off: disk on fire" {
			t.Errorf("logged is %s", got)
		}
	})
}

// TestEventsThatDoNotBegin: pods run without the runtime's events, whose absence is logged once.
func TestEventsThatDoNotBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		f := &faulty{Runtime: simulated.New(simulated.Options{})}
		f.breaks("Events", errOnFire)
		var lines []string
		n := w.runOn(f, f.Runtime, kubelet.Options{Logger: logger(w, &lines)})
		n.pods.Put(newPod("web"))
		n.after(5 * time.Second)
		n.expectStatuses("0s web Running Ready main=running")
		if got := strings.Join(lines, ", "); got != "0s the container runtime's events broke off: disk on fire" {
			t.Errorf("logged is %s", got)
		}
		n.stop()
		f.Close()
	})
}

// TestRemainsThatStay: what is left of a pod that is gone is removed after ten seconds if it cannot be at once.
func TestRemainsThatStay(t *testing.T) {
	for _, method := range []string{"RemovePodSandbox", "RemoveContainer", "ListContainers"} {
		withFaults(t, simulated.Options{}, kubelet.Host{}, func(n *node, f *faulty, lines *[]string) {
			n.pods.Put(newPod("web"))
			n.after(time.Second)
			n.remove("web", 30)
			n.after(100 * time.Microsecond)
			f.breaks(method, errOnFire)
			n.after(2 * time.Second)
			if got := strings.Join(slices.Compact(*lines), ", "); got != "2s removing what a pod left behind failed: disk on fire" {
				t.Errorf("%s: logged is %s", method, got)
			}
			f.breaks("", nil)
			n.after(10 * time.Second)
			n.leftNothing()
		})
	}
}

// TestSurveyThatFails: a survey that fails is logged, and changes nothing.
func TestSurveyThatFails(t *testing.T) {
	for _, method := range []string{"ListSandboxes", "ListContainers"} {
		withFaults(t, simulated.Options{}, kubelet.Host{}, func(n *node, f *faulty, lines *[]string) {
			n.pods.Put(newPod("web"))
			n.after(time.Second)
			f.breaks(method, errOnFire)
			n.after(20 * time.Second)
			f.breaks("", nil)
			n.after(20 * time.Second)
			n.expectStatuses("1s web Running Ready main=running")
			if got := strings.Join(*lines, ", "); got != "20s listing the runtime's pods failed: disk on fire" {
				t.Errorf("%s: logged is %s", method, got)
			}
		})
	}
}

// TestInitContainersOfANewSandbox: init containers run again in a new sandbox; the earlier ones are removed with their
// logs.
func TestInitContainersOfANewSandbox(t *testing.T) {
	rt := simulated.Options{Program: func(p simulated.Process) simulated.Program {
		return simulated.Program{Exits: p.Container.Name == "first", After: time.Second}
	}}
	for _, method := range []string{"", "RemoveContainer", "StopPodSandbox"} {
		shredder := &shredder{}
		withFaults(t, rt, kubelet.Host{Logs: kubelet.Logs{Dir: t.TempDir(), Remover: shredder}}, func(n *node, f *faulty, lines *[]string) {
			n.pods.Put(newPod("web", func(p *corev1.Pod) { p.Spec.InitContainers = []corev1.Container{{Name: "first", Image: "nginx"}} }))
			n.after(5 * time.Second)
			n.expectEventsAbout("nothing")
			sandboxes, err := n.runtime.ListSandboxes(t.Context(), cri.Filter{})
			if err != nil {
				t.Fatal(err)
			}
			switch f.breaks(method, errOnFire); method {
			case "StopPodSandbox": // one that runs
				pod := n.pod("web").DeepCopy()
				pod.Spec.HostNetwork = true
				pod.Generation++
				n.pods.Put(pod)
			default:
				if err := n.runtime.StopPodSandbox(t.Context(), sandboxes[0].ID); err != nil {
					t.Fatal(err)
				}
			}
			n.after(2 * time.Second)
			if method != "" {
				n.expectOneEventAbout("FailedSync", "6s web Warning FailedSync: error killing pod: disk on fire")
				if len(n.containers()) != 2 {
					t.Errorf("there is %v", n.containers())
				}
				f.breaks("", nil)
				n.after(20 * time.Second)
			}
			if status := n.pod("web").Status; status.Phase != corev1.PodRunning || status.ContainerStatuses[0].State.Running == nil {
				t.Errorf("the pod is %s", summary(n.pod("web")))
			}
			if got := strings.Join(shredder.paths(), " "); got != "first/0.log" {
				t.Errorf("removed are the logs %s", got)
			}
		})
	}
}

// shredder notes the logs that it is to remove.
type shredder struct {
	mu   sync.Mutex
	list []string
}

func (s *shredder) RemoveLog(path string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, filepath.ToSlash(path))
	return nil
}

func (s *shredder) paths() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.list)
}

// TestEarlierInstancesThatStay: a container is not restarted before an earlier instance can be removed, and that counts
// as another failure.
func TestEarlierInstancesThatStay(t *testing.T) {
	rt := simulated.Options{Program: func(p simulated.Process) simulated.Program {
		return simulated.Program{Exits: p.Container.Attempt < 2, After: time.Second, ExitCode: 1}
	}}
	withFaults(t, rt, kubelet.Host{}, func(n *node, f *faulty, _ *[]string) {
		n.pods.Put(newPod("web"))
		n.after(11 * time.Second)
		f.breaks("RemoveContainer", errOnFire)
		n.after(4500 * time.Millisecond)
		f.breaks("", nil)
		n.after(10 * time.Second)
		n.expectStatuses("1s web Running Ready main=running", "2s web Running Ready main=running#1", "3s web Running main=CrashLoopBackOff#1",
			"13s web Running main=CreateContainerError#1", "14s web Running main=CrashLoopBackOff#1", "23s web Running Ready main=running#2")
	})
}

// TestOldSandboxThatStays: a new sandbox does not wait for the removal of the old one.
func TestOldSandboxThatStays(t *testing.T) {
	withFaults(t, simulated.Options{}, kubelet.Host{}, func(n *node, f *faulty, lines *[]string) {
		n.pods.Put(newPod("web"))
		n.after(time.Second)
		n.remake(t)
		f.breaks("RemovePodSandbox", errOnFire)
		n.remake(t)
		n.remake(t)
		if status := n.pod("web").Status; status.Phase != corev1.PodRunning || status.ContainerStatuses[0].State.Running == nil {
			t.Errorf("the pod is %s", summary(n.pod("web")))
		}
		for _, line := range *lines {
			if !strings.HasSuffix(line, "removing an old sandbox failed: disk on fire") {
				t.Errorf("logged is %s", line)
			}
		}
		if len(*lines) == 0 {
			t.Error("nothing is logged")
		}
	})
}

// remake stops the newest sandbox, and waits for the next.
func (n *node) remake(t *testing.T) {
	t.Helper()
	sandboxes, err := n.runtime.ListSandboxes(t.Context(), cri.Filter{})
	if err == nil {
		err = n.runtime.StopPodSandbox(t.Context(), sandboxes[0].ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	n.after(400 * time.Second)
}

// TestHookThatFailsTwice: that a container cannot be stopped after its hook has failed is logged.
func TestHookThatFailsTwice(t *testing.T) {
	hooks := kubelet.ProbeFunc(func(context.Context, kubelet.ProbeTarget) error { return errors.New("connection refused") })
	withFaults(t, simulated.Options{}, kubelet.Host{Hooks: hooks}, func(n *node, f *faulty, lines *[]string) {
		f.breaks("StopContainer", errOnFire)
		n.pods.Put(newPod("web", func(p *corev1.Pod) {
			p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/begin"}}}
		}))
		n.after(100 * time.Millisecond)
		if got := strings.Join(*lines, ", "); got != "1s killing a container whose hook failed: stopping container main: disk on fire" {
			t.Errorf("logged is %s", got)
		}
	})
}

// TestWhatBelongsToNoPod: sandboxes and containers that say nothing of pods are not the kubelet's.
func TestWhatBelongsToNoPod(t *testing.T) {
	withFaults(t, simulated.Options{}, kubelet.Host{}, func(n *node, _ *faulty, _ *[]string) {
		config := cri.SandboxConfig{Metadata: cri.SandboxMetadata{Name: "build", Namespace: "ci", UID: "b"}}
		sandbox, err := n.runtime.RunPodSandbox(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		ref, err := n.runtime.PullImage(t.Context(), cri.ImageSpec{Image: "nginx"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		id, err := n.runtime.CreateContainer(t.Context(), sandbox, cri.ContainerConfig{Metadata: cri.ContainerMetadata{Name: "job"}, Image: cri.ImageSpec{Image: ref}}, config)
		if err == nil {
			err = n.runtime.StartContainer(t.Context(), id)
		}
		if err != nil {
			t.Fatal(err)
		}
		n.after(time.Minute)
		if n.container("job").State != cri.ContainerRunning {
			t.Error("it was stopped")
		}
	})
}

// TestForeignContainer: a container in a pod's sandbox that the pod does not have is left alone, until the pod ends.
func TestForeignContainer(t *testing.T) {
	withFaults(t, simulated.Options{}, kubelet.Host{}, func(n *node, _ *faulty, _ *[]string) {
		n.pods.Put(newPod("web"))
		n.after(time.Second)
		first := n.containers()[0]
		id, err := n.runtime.CreateContainer(t.Context(), first.SandboxID, cri.ContainerConfig{
			Metadata: cri.ContainerMetadata{Name: "foreign"}, Image: cri.ImageSpec{Image: "nginx"}, Labels: first.Labels,
		}, cri.SandboxConfig{})
		if err == nil {
			err = n.runtime.StartContainer(t.Context(), id)
		}
		if err != nil {
			t.Fatal(err)
		}
		n.after(time.Minute)
		if n.container("foreign").State != cri.ContainerRunning {
			t.Error("it was stopped")
		}
		n.expectStatuses("1s web Running Ready main=running")
		n.remove("web", 5)
		n.after(time.Minute)
		n.leftNothing()
	})
}
