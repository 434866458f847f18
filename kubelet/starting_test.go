package kubelet_test

import (
	"context"
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
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
	"github.com/keelson-dev/keelson/kubelet"
)

// begin runs a kubelet that reads from those sources, some of which may run.
func (w *world) begin(in kubelet.Sources, rt *simulated.Runtime, o kubelet.Options, sources ...func(context.Context) error) *node {
	w.t.Helper()
	o.NodeName = "n1"
	k, err := kubelet.New(in, w, rt, w, o)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	n := &node{world: w, runtime: rt, cancel: cancel, done: make(chan struct{})}
	var group sync.WaitGroup
	for _, run := range append(sources, k.Run) {
		group.Go(func() {
			if err := run(ctx); err != nil {
				w.t.Error(err)
			}
		})
	}
	go func() { group.Wait(); close(n.done) }()
	return n
}

// end makes an informer end before it knows anything.
func end[T informer.Object](t *testing.T, of *informer.Informer[T]) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_ = of.Run(over)
}

// TestStaticPodsThatCannotBeRead: a kubelet ends with an error if its static pods will never be known, and if those of
// the API will not although its static ones are.
func TestStaticPodsThatCannotBeRead(t *testing.T) {
	for _, broken := range []string{"pods", "static"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			rt := simulated.New(simulated.Options{})
			in := kubelet.Sources{
				Pods: informer.New(w.pods, informer.Options{}), Static: informer.New(memory.New[*corev1.Pod](), informer.Options{}),
				Nodes: informer.New(w.nodes, informer.Options{}),
			}
			k, err := kubelet.New(in, w, rt, w, kubelet.Options{NodeName: "n1"})
			if err != nil {
				t.Fatal(err)
			}
			end(t, map[string]*informer.Informer[*corev1.Pod]{"pods": in.Pods, "static": in.Static}[broken])
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var group sync.WaitGroup
			for _, source := range []func(context.Context) error{in.Pods.Run, in.Static.Run, in.Nodes.Run} {
				group.Go(func() { _ = source(ctx) })
			}
			if err := k.Run(ctx); err == nil || !strings.HasPrefix(err.Error(), "reading the pods of node n1: ") {
				t.Errorf("without %s it ends with %v", broken, err)
			}
			cancel()
			group.Wait()
			rt.Close()
		})
	}
}

// TestPodsWaitForStaticOnes: no pod of the API starts before the static ones are known, which have room first.
func TestPodsWaitForStaticOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		rt := simulated.New(simulated.Options{})
		manifests := memory.New[*corev1.Pod]()
		in := kubelet.Sources{Pods: informer.New(w.pods, informer.Options{}), Static: informer.New(manifests, informer.Options{})}
		late := func(ctx context.Context) error {
			time.Sleep(5 * time.Second)
			return in.Static.Run(ctx)
		}
		half := func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = quantities("cpu", "2") }
		w.pods.Put(newPod("web", half))
		static := manifest("a")
		half(static)
		manifests.Put(static)
		n := w.begin(in, rt, kubelet.Options{Registration: kubelet.Registration{Capacity: quantities("cpu", "2")}}, in.Pods.Run, late)
		n.after(10 * time.Second)
		n.expectStatuses("5s web Failed (OutOfcpu)")
		n.stop()
		rt.Close()
	})
}

// TestNodesThatCannotBeRead: a kubelet whose informer of nodes has ended runs its pods once its node is registered.
func TestNodesThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		rt := simulated.New(simulated.Options{})
		in := kubelet.Sources{Pods: informer.New(w.pods, informer.Options{}), Nodes: informer.New(w.nodes, informer.Options{})}
		end(t, in.Nodes)
		w.breaks("create nodes", func() error {
			if time.Since(w.start) < time.Second {
				return away()
			}
			return nil
		})
		n := w.begin(in, rt, kubelet.Options{}, in.Pods.Run)
		w.pods.Put(newPod("web"))
		n.after(10 * time.Second)
		n.expectStatuses("1.5s web Running Ready main=running")
		n.stop()
		rt.Close()
	})
}

// TestStaticPodsBeforeTheNode: static pods are admitted by what the node will be registered with.
func TestStaticPodsBeforeTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.breaks("create nodes", away)
		rt := simulated.New(simulated.Options{})
		manifests := memory.New[*corev1.Pod]()
		in := kubelet.Sources{Pods: informer.New(w.pods, informer.Options{}), Static: informer.New(manifests, informer.Options{})}
		n := w.begin(in, rt, kubelet.Options{Registration: kubelet.Registration{
			Labels:   map[string]string{"zone": "a"},
			Capacity: quantities("cpu", "2", "example.com/gpu", "1"), Allocatable: quantities("cpu", "1"),
		}}, in.Pods.Run, in.Static.Run)
		for name, change := range map[string]func(*corev1.PodSpec){
			"here": func(s *corev1.PodSpec) {
				s.NodeSelector = map[string]string{"zone": "a", "kubernetes.io/hostname": "n1"}
			},
			"there": func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"zone": "b"} },
			"fits": func(s *corev1.PodSpec) {
				s.Containers[0].Resources.Requests = quantities("cpu", "1", "example.com/gpu", "1")
			},
			"too big": func(s *corev1.PodSpec) { s.Containers[0].Resources.Requests = quantities("cpu", "1100m") },
		} {
			pod := manifest(name)
			pod.Name = name
			change(&pod.Spec)
			manifests.Put(pod)
		}
		n.after(5 * time.Second)
		var running []string
		for _, c := range n.containers() {
			running = append(running, c.Labels[cri.LabelPodName])
		}
		slices.Sort(running)
		if got := strings.Join(running, " "); got != "fits here" {
			t.Errorf("running are %s", got)
		}
		n.stop()
		rt.Close()
	})
}

// TestNodeIsDescribedAnew: a node that cannot be registered at first is registered as it is then.
func TestNodeIsDescribedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.breaks("create nodes", func() error {
			if time.Since(w.start) < 5*time.Second {
				return away()
			}
			return nil
		})
		rt := simulated.New(simulated.Options{})
		n := w.run(rt, kubelet.Options{})
		n.after(2 * time.Second)
		rt.SetStatus(cri.RuntimeStatus{Runtime: cri.Condition{Ready: true}, Network: cri.Condition{Reason: "Away"}})
		n.after(5 * time.Second)
		n.expect("node writes", &n.nodeLog, "6.3s lease")
		if got := conditions(n.node())[3]; !strings.HasPrefix(got, "Ready=False") {
			t.Errorf("the node is %s", got)
		}
		n.stop()
		rt.Close()
	})
}

// TestNodeThatIsAsItWas: a kubelet that takes over a node writes nothing to it if nothing has changed.
func TestNodeThatIsAsItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		rt := simulated.New(simulated.Options{})
		n := w.run(rt, kubelet.Options{})
		n.after(100 * time.Millisecond)
		n.stop()
		n = w.run(rt, kubelet.Options{})
		n.after(100 * time.Millisecond)
		n.stop()
		if got := w.count("patch nodes") + w.count("patch nodes/status"); got > 0 {
			t.Errorf("%d writes", got)
		}
		rt.Close()
	})
}

// TestNothingToAdmit: a memory is not told to admit no pods.
func TestNothingToAdmit(t *testing.T) {
	m := &idle{diary: &diary{waits: map[types.UID]map[string]kubelet.Wait{}}}
	simulate(t, simulated.Options{}, kubelet.Options{Host: kubelet.Host{Memory: m}}, func(n *node) {
		n.pods.Put(newPod("strange", func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: "plan9"} }))
		n.pods.Put(newPod("web"))
		n.after(time.Second)
		n.touch("web")
		n.after(time.Second)
		if !m.Admitted("uid-of-web") || m.Admitted("uid-of-strange") || m.nothing {
			t.Errorf("admitted: %t, %t, nothing %t", m.Admitted("uid-of-web"), m.Admitted("uid-of-strange"), m.nothing)
		}
	})
}

// idle is a memory that notes whether it was told to admit no pods.
type idle struct {
	*diary
	nothing bool
}

func (m *idle) Admit(pods ...*corev1.Pod) error {
	m.nothing = m.nothing || len(pods) == 0
	return m.diary.Admit(pods...)
}

// TestPodsOfTheSameNameLongAgo: what a pod has left in the runtime is removed although another has taken its name while
// no kubelet was running, and that one runs.
func TestPodsOfTheSameNameLongAgo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		rt := simulated.New(simulated.Options{})
		n := w.run(rt, kubelet.Options{})
		n.pods.Put(newPod("web"))
		n.pods.Put(newPod("other"))
		n.after(time.Second)
		n.stop()
		n.pods.Delete("default", "web")
		n.pods.Put(newPod("web", func(p *corev1.Pod) { p.UID = "another" }))
		other := n.of("other", "main").ID
		n = w.run(rt, kubelet.Options{})
		n.after(time.Minute)
		for _, c := range n.containers() {
			if uid := c.Labels[cri.LabelPodUID]; uid != "another" && c.ID != other {
				t.Errorf("there is %s of %s", c.Metadata.Name, uid)
			}
		}
		if got := len(n.containers()); got != 2 {
			t.Errorf("%d containers", got)
		}
		n.expectEventsAbout("Killing", "1s web Normal Killing: Stopping container main")
		n.stop()
		rt.Close()
	})
}
