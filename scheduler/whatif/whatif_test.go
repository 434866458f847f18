package whatif_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/plugins"
	"github.com/keelson-dev/keelson/scheduler/whatif"
)

func same[T any](t *testing.T, want, got T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func important(p *corev1.Pod, priority int32) *corev1.Pod {
	p.Spec.Priority = &priority
	return p
}

func world(t testing.TB, nodes []*corev1.Node, pods ...*corev1.Pod) *whatif.World {
	t.Helper()
	w, err := whatif.New(scheduler.NewSnapshot(nodes, pods), scheduler.Profile{Plugins: plugins.Default()})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// where is each node with its pods.
func where(w *whatif.World) string {
	var all []string
	for _, n := range w.Snapshot().Nodes() {
		var names []string
		for _, p := range n.Pods {
			names = append(names, p.Pod.Name)
		}
		slices.Sort(names)
		all = append(all, n.Name+":"+strings.Join(names, ","))
	}
	return strings.Join(all, " ")
}

// told is what became of pods, in order.
func told(placements []whatif.Placement) []string {
	all := []string{}
	for _, p := range placements {
		line := p.Pod.Name + " "
		if p.From != "" {
			line += p.From + "→"
		}
		line += p.Node
		for _, v := range p.Victims {
			line += " -" + v.Name
		}
		if p.Err != nil {
			line += ": " + p.Err.Error()
		}
		all = append(all, line)
	}
	return all
}

func TestNew(t *testing.T) {
	empty := scheduler.NewSnapshot(nil, nil)
	one := scheduler.Profile{Plugins: plugins.Default()}
	named := scheduler.Profile{SchedulerName: scheduler.DefaultSchedulerName, Plugins: plugins.Default()}
	for name, profiles := range map[string][]scheduler.Profile{
		"two of a name": {one, named}, "invalid": {{Plugins: []scheduler.Enabled{{}}}},
	} {
		if _, err := whatif.New(empty, profiles...); !errors.Is(err, scheduler.ErrProfile) {
			t.Errorf("%s: %v", name, err)
		}
	}
	w, err := whatif.New(empty, one, scheduler.Profile{SchedulerName: "other", Plugins: plugins.Default()})
	if err != nil {
		t.Fatal(err)
	}
	w.SetNode(node("a", "1"))
	for name, want := range map[string]string{"": "a", "default-scheduler": "a", "other": "a", "none": ""} {
		p := pod("p"+name, "100m")
		p.Spec.SchedulerName = name
		placed := w.Place(t.Context(), p)
		d, err := w.Decide(p)
		if placed.Node != want || errors.Is(placed.Err, whatif.ErrProfile) != (want == "") ||
			errors.Is(err, whatif.ErrProfile) != (want == "") || d.Node != want {
			t.Errorf("%q: %+v; %v, %v", name, placed, d.Node, err)
		}
		if fit := w.Fits(p, 2); errors.Is(fit.Err, whatif.ErrProfile) != (want == "") {
			t.Errorf("%q: %+v", name, fit)
		}
	}
}

func TestForks(t *testing.T) {
	w := world(t, []*corev1.Node{node("a", "2"), node("b", "2")}, on(pod("web", "1"), "a"))
	before := w.Snapshot()
	fork, other := w.Fork(), w.Fork()
	same(t, "b", fork.Place(t.Context(), on(pod("p", "2"), "")).Node)
	if _, err := fork.RemoveNode("a"); err != nil {
		t.Error(err)
	}
	fork.SetNode(node("c", "1"))
	same(t, "b:p c:", where(fork))
	same(t, "a:web b:", where(w))
	same(t, "a:web b:", where(other))
	if w.Snapshot() != before {
		t.Error("a world that did not change has another snapshot")
	}
	same(t, nil, fork.Commit())
	same(t, "b:p c:", where(w))
	if err := other.Commit(); !errors.Is(err, whatif.ErrChanged) {
		t.Errorf("the parent has changed: %v", err)
	}
	if err := w.Commit(); !errors.Is(err, whatif.ErrChanged) {
		t.Errorf("no fork: %v", err)
	}
	same(t, true, fork.RemovePod(on(pod("p", "2"), "b")))
	same(t, "b:p c:", where(w))
	same(t, nil, fork.Commit()) // once more
	same(t, "b: c:", where(w))
	w.SetPod(on(pod("x", "1"), "c"))
	same(t, "b: c:", where(fork))
	if err := fork.Commit(); !errors.Is(err, whatif.ErrChanged) {
		t.Errorf("the parent has changed: %v", err)
	}
	if _, err := w.RemoveNode("a"); !errors.Is(err, whatif.ErrNode) {
		t.Errorf("removing a node twice: %v", err)
	}
	same(t, false, w.RemovePod(on(pod("p", "2"), "b")))
}

func TestPlace(t *testing.T) {
	gated := pod("gated", "1")
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}}
	never := important(pod("never", "3"), 5)
	never.Spec.PreemptionPolicy = new(corev1.PreemptionPolicy)
	*never.Spec.PreemptionPolicy = corev1.PreemptNever
	for name, c := range map[string]struct {
		pod   *corev1.Pod
		want  string
		where string
	}{
		"room":       {pod("p", "1"), "p b", "a:low b:mid,p"},
		"preemption": {important(pod("p", "3"), 9), "p a -low", "a:p b:mid"},
		"too large": {important(pod("p", "5"), 9), "p : 0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: " +
			"2 Preemption is not helpful for scheduling.", "a:low b:mid"},
		"no preemption": {never, "never : 0/2 nodes are available: 2 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never.",
			"a:low b:mid"},
		"gated": {gated, "gated : held back by SchedulingGates: waiting for scheduling gates: [g]", "a:low b:mid"},
	} {
		t.Run(name, func(t *testing.T) {
			w := world(t, []*corev1.Node{node("a", "4"), node("b", "4")}, on(important(pod("low", "4"), 1), "a"), on(important(pod("mid", "3"), 3), "b"))
			before := c.pod.DeepCopy()
			same(t, []string{c.want}, told([]whatif.Placement{w.Place(t.Context(), c.pod)}))
			same(t, c.where, where(w))
			same(t, before, c.pod)
		})
	}
	same(t, scheduler.ErrNoNodes.Error(), world(t, nil).Place(t.Context(), pod("p", "1")).Err.Error())
}

// A preemptor that makes no room for its pod changes nothing.
func TestPreemptionThatDoesNotHelp(t *testing.T) {
	victim := on(pod("v", "1"), "a")
	for _, c := range []struct {
		nomination *scheduler.Nomination
		cpu        string
	}{
		{nil, "4"}, {&scheduler.Nomination{}, "4"}, {&scheduler.Nomination{Victims: []*corev1.Pod{victim}}, "4"},
		{&scheduler.Nomination{Node: "a", Victims: []*corev1.Pod{victim}}, "5"},
	} {
		profile := scheduler.Profile{Plugins: append(scheduler.Without(plugins.Default(), "DefaultPreemption"), scheduler.Enabled{
			Plugin: scheduler.PreemptorFunc("P", func(context.Context, *scheduler.Trial) (*scheduler.Nomination, error) { return c.nomination, nil }),
		})}
		w, err := whatif.New(scheduler.NewSnapshot([]*corev1.Node{node("a", "4")}, []*corev1.Pod{victim}), profile)
		if err != nil {
			t.Fatal(err)
		}
		same(t, []string{"p : 0/1 nodes are available: 1 Insufficient cpu."}, told([]whatif.Placement{w.Place(t.Context(), pod("p", c.cpu))}))
		same(t, "a:v", where(w))
	}
}

func TestPlaceAll(t *testing.T) {
	w := world(t, []*corev1.Node{node("a", "4"), node("b", "2")}, on(important(pod("old", "2"), 1), "a"), on(important(pod("low", "1"), 1), "a"))
	got := told(w.PlaceAll(t.Context(), []*corev1.Pod{
		important(pod("p1", "1"), 2), important(pod("p2", "1"), 2), important(pod("first", "4"), 9), important(pod("last", "1"), 0),
	}))
	same(t, []string{
		"first a -old -low", "p1 b", "p2 b",
		"old a→: 0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.",
		"low a→: 0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.",
		"last : 0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.",
	}, got)
	same(t, "a:first b:p1,p2", where(w))
}

func TestFits(t *testing.T) {
	w := world(t, []*corev1.Node{node("a", "4"), node("b", "2")}, on(important(pod("low", "1"), -5), "a"))
	before := where(w)
	p := pod("p", "1")
	p.Status.NominatedNodeName = "a"
	fit := w.Fits(p, 100)
	same(t, 5, fit.Count)
	same(t, map[string]int{"a": 3, "b": 2}, fit.Nodes)
	same(t, "0/2 nodes are available: 2 Insufficient cpu.", fit.Err.Error())
	fit = w.Fits(p, 3)
	same(t, 3, fit.Count)
	same(t, nil, fit.Err)
	same(t, before, where(w))
}

func TestWithout(t *testing.T) {
	daemon := on(pod("daemon", "1"), "a")
	daemon.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "d", Controller: new(bool)}}
	*daemon.OwnerReferences[0].Controller = true
	static := on(pod("static", "100m"), "a")
	static.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	owned := on(pod("owned", "1"), "a")
	owned.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "r", Controller: daemon.OwnerReferences[0].Controller}}
	w := world(t, []*corev1.Node{node("a", "8"), node("b", "2"), node("c", "2")}, daemon, static, owned,
		on(important(pod("vip", "2"), 9), "a"), on(pod("small", "500m"), "b"), on(pod("other", "1"), "c"))
	before := where(w)
	loss, err := w.Without(t.Context(), "a")
	same(t, nil, err)
	same(t, []string{"vip a→b -small", "owned a→c"}, told(loss.Moved))
	same(t, []string{"small b→: 0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: " +
		"2 No preemption victims found for incoming pod."}, told(loss.Pending))
	var gone []string
	for _, p := range loss.Gone {
		gone = append(gone, p.Name)
	}
	same(t, []string{"daemon", "static"}, gone)
	same(t, before, where(w))
	if _, err := w.Without(t.Context(), "b", "x"); !errors.Is(err, whatif.ErrNode) {
		t.Errorf("an unknown node: %v", err)
	}
	loss, err = w.Without(t.Context(), "a", "b", "c")
	if err != nil || len(loss.Moved) != 0 || len(loss.Pending) != 4 || !errors.Is(loss.Pending[0].Err, scheduler.ErrNoNodes) {
		t.Errorf("all nodes: %+v, %v", loss, err)
	}
}

func TestMissing(t *testing.T) {
	labelled := func(n *corev1.Node, zone string) *corev1.Node {
		n.Labels["zone"] = zone
		return n
	}
	unhealthy := labelled(node("a2", "4"), "x")
	unhealthy.Spec.Unschedulable = true
	unhealthy.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute}}
	tainted := labelled(node("d", "4"), "x")
	tainted.Spec.Taints = []corev1.Taint{{Key: "for", Value: "some", Effect: corev1.TaintEffectNoSchedule}}
	w := world(t, []*corev1.Node{labelled(node("a1", "4"), "x"), unhealthy, labelled(node("b", "4"), "y"), node("c", "2"), tainted},
		on(pod("p1", "4"), "a1"), on(pod("p2", "4"), "b"), on(pod("p3", "2"), "c"))
	shapes := w.Shapes()
	var names []string
	for _, s := range shapes {
		names = append(names, s.Name)
	}
	same(t, []string{"a1", "b", "c", "d"}, names)
	apart := func(p *corev1.Pod) *corev1.Pod { // one to a host
		p.Labels = map[string]string{"app": "x"}
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels}},
		}}}
		return p
	}
	inX := pod("in-x", "3")
	inX.Spec.NodeSelector = map[string]string{"zone": "x"}
	before := where(w)
	var got []string
	for _, n := range w.Missing(t.Context(), []*corev1.Pod{apart(pod("q1", "1")), apart(pod("q2", "1")), inX}, shapes, 10) {
		var left []string
		for _, p := range n.Pending {
			left = append(left, p.Pod.Name)
		}
		got = append(got, fmt.Sprint(n.Shape.Name, " ", n.Nodes, " ", left))
	}
	same(t, []string{"a1 2 []", "b 2 [in-x]", "c 2 [in-x]", "d 0 [q1 q2 in-x]"}, got)
	same(t, 1, w.Missing(t.Context(), []*corev1.Pod{apart(pod("q1", "1")), apart(pod("q2", "1"))}, shapes[:1], 1)[0].Nodes)
	if need := w.Missing(t.Context(), nil, shapes[:1], 10)[0]; need.Nodes != 0 || len(need.Pending) != 0 {
		t.Errorf("of no pods: %+v", need)
	}
	same(t, before, where(w))
}

// A world that changed over and over, in forks or not, decides like one that begins as its snapshot; equal worlds decide alike.
func TestLikeAFreshWorld(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := world(t, []*corev1.Node{node("n0", "4"), node("n1", "4"), node("n2", "4")})
		for step := range 60 {
			p := important(pod(fmt.Sprintf("p%d", step), fmt.Sprintf("%dm", 100*(1+r.IntN(20)))), int32(r.IntN(3)))
			fresh, err := whatif.New(w.Snapshot(), scheduler.Profile{Plugins: plugins.Default()})
			if err != nil {
				t.Fatal(err)
			}
			if r.IntN(3) == 0 {
				fork := w.Fork()
				same(t, told([]whatif.Placement{fresh.Fork().Place(t.Context(), p)}), told([]whatif.Placement{fork.Place(t.Context(), p)}))
				if r.IntN(2) == 0 {
					same(t, nil, fork.Commit())
				}
			} else {
				same(t, told([]whatif.Placement{fresh.Place(t.Context(), p)}), told([]whatif.Placement{w.Place(t.Context(), p)}))
				same(t, where(fresh), where(w))
			}
			for _, n := range w.Snapshot().Nodes() {
				if n.Requested.MilliCPU > n.Allocatable.MilliCPU {
					t.Fatalf("%s is over-committed", n.Name)
				}
			}
			if r.IntN(10) == 0 {
				w.SetNode(node(fmt.Sprintf("n%d", r.IntN(5)), "4"))
			}
			if nodes := w.Snapshot().Nodes(); r.IntN(15) == 0 && len(nodes) > 1 {
				if _, err := w.RemoveNode(nodes[r.IntN(len(nodes))].Name); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

func big(b *testing.B) *whatif.World {
	nodes := make([]*corev1.Node, 5000)
	for i := range nodes {
		nodes[i] = node(fmt.Sprintf("node-%04d", i), "8")
		nodes[i].Status.Allocatable[corev1.ResourceMemory] = resource.MustParse("32Gi")
	}
	return world(b, nodes)
}

func BenchmarkFork(b *testing.B) {
	w := big(b)
	for b.Loop() {
		w.Fork()
	}
}

// BenchmarkPending places 20,000 pods on 5,000 nodes in a fork.
func BenchmarkPending(b *testing.B) {
	w := big(b)
	pods := make([]*corev1.Pod, 20000)
	for i := range pods {
		pods[i] = pod(fmt.Sprintf("pod-%05d", i), "100m")
	}
	for b.Loop() {
		for _, p := range w.Fork().PlaceAll(b.Context(), pods) {
			if p.Err != nil {
				b.Fatal(p.Err)
			}
		}
	}
}
