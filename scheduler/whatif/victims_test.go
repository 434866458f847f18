package whatif_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/plugins"
	"github.com/keelson-dev/keelson/scheduler/whatif"
)

// TestNominatedNode: a pod goes where others made room for it, even if another node became the better one by that.
func TestNominatedNode(t *testing.T) {
	inZone := func(name string) *corev1.Node {
		n := node(name, "4")
		n.Labels["zone"] = "z"
		return n
	}
	low := on(important(pod("low", "100m"), 1), "a")
	low.Labels = map[string]string{"app": "low"}
	p := important(pod("p", "100m"), 9)
	p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
		{TopologyKey: "zone", LabelSelector: &metav1.LabelSelector{MatchLabels: low.Labels}},
	}}}
	w := world(t, []*corev1.Node{inZone("a"), inZone("b")}, low, on(important(pod("vip", "3"), 9), "a"))
	same(t, []string{"p a -low"}, told([]whatif.Placement{w.Place(t.Context(), p)}))
}

// TestVictimsOfThisCall: a pod that was placed, and then made room for another, is placed once more, and reported once.
func TestVictimsOfThisCall(t *testing.T) {
	for name, victims := range map[string][]string{"one": {"second"}, "two": {"second", "first"}} {
		t.Run(name, func(t *testing.T) {
			// Others of these names, which are in another namespace, stay.
			others := []*corev1.Pod{pod("second", "1"), pod("first", "1")}
			for _, p := range others {
				p.Namespace = "other"
			}
			profile := scheduler.Profile{Plugins: append(scheduler.Without(plugins.Default(), "DefaultPreemption"), scheduler.Enabled{
				Plugin: scheduler.PreemptorFunc("P", func(_ context.Context, trial *scheduler.Trial) (*scheduler.Nomination, error) {
					if trial.Pod().Name != "third" {
						return nil, nil
					}
					n := &scheduler.Nomination{Node: "a"}
					for _, v := range victims {
						n.Victims = append(n.Victims, on(pod(v, "1"), "a"))
					}
					return n, nil
				}),
			})}
			w, err := whatif.New(scheduler.NewSnapshot([]*corev1.Node{node("a", "4")}, nil), profile)
			if err != nil {
				t.Fatal(err)
			}
			third := pod("third", "1")
			want, stays := []string{"second a", "first a", "first a", "third a -second", "second : 0/1 nodes are available: 1 Insufficient cpu."}, "a:first,first,second,third"
			if len(victims) == 2 {
				want = []string{"second a", "first a", "third a -second -first", "second a", "first : 0/1 nodes are available: 1 Insufficient cpu."}
				stays = "a:first,second,second,third"
			}
			same(t, want, told(w.PlaceAll(t.Context(), append(others, pod("first", "1"), pod("second", "1"), third))))
			same(t, stays, where(w))
		})
	}
}

// TestVictimsAfterLoss: a pod that lost its node, and then made room, comes from the node that went.
func TestVictimsAfterLoss(t *testing.T) {
	profile := scheduler.Profile{Plugins: append(scheduler.Without(plugins.Default(), "DefaultPreemption"), scheduler.Enabled{
		Plugin: scheduler.PreemptorFunc("P", func(_ context.Context, trial *scheduler.Trial) (*scheduler.Nomination, error) {
			if trial.Pod().Name != "second" {
				return nil, nil
			}
			return &scheduler.Nomination{Node: "b", Victims: []*corev1.Pod{on(pod("first", "1"), "b")}}, nil
		}),
	})}
	w, err := whatif.New(scheduler.NewSnapshot([]*corev1.Node{node("a", "2"), node("b", "1")},
		[]*corev1.Pod{on(pod("first", "1"), "a"), on(pod("second", "1"), "a")}), profile)
	if err != nil {
		t.Fatal(err)
	}
	loss, err := w.Without(t.Context(), "a")
	same(t, nil, err)
	same(t, []string{"second a→b -first"}, told(loss.Moved))
	same(t, []string{"first a→: 0/1 nodes are available: 1 Insufficient cpu."}, told(loss.Pending))
}

// TestMissingChangesNothing: the pods that find nodes are placed elsewhere than in the world.
func TestMissingChangesNothing(t *testing.T) {
	w := world(t, []*corev1.Node{node("a", "2")})
	needs := w.Missing(t.Context(), []*corev1.Pod{pod("p", "1"), pod("q", "2")}, w.Shapes(), 10)
	if len(needs) != 1 || needs[0].Nodes != 1 || len(needs[0].Pending) != 0 {
		t.Errorf("%+v", needs)
	}
	same(t, "a:", where(w))
}

// TestShapes: nodes are of one shape if pods cannot tell them apart, except by the name of the host.
func TestShapes(t *testing.T) {
	base := node("a", "4")
	base.Labels["zone"] = "z"
	base.Annotations = map[string]string{"note": "x"}
	base.Spec.Taints = []corev1.Taint{{Key: "for", Value: "some", Effect: corev1.TaintEffectNoSchedule}, {Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}}
	base.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("5")}
	base.Status.DeclaredFeatures = []string{"F"}
	base.Status.NodeInfo.OperatingSystem = "linux"
	base.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady}}
	want := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: base.Labels}, Spec: corev1.NodeSpec{Taints: base.Spec.Taints[:1]},
		Status: corev1.NodeStatus{
			Capacity: base.Status.Capacity, Allocatable: base.Status.Allocatable, DeclaredFeatures: base.Status.DeclaredFeatures, NodeInfo: base.Status.NodeInfo,
		},
	}
	for name, c := range map[string]struct {
		change func(*corev1.Node)
		shapes int
	}{
		"nothing":     {func(*corev1.Node) {}, 1},
		"host":        {func(n *corev1.Node) { n.Labels[corev1.LabelHostname] = "other" }, 1},
		"no host":     {func(n *corev1.Node) { delete(n.Labels, corev1.LabelHostname) }, 1},
		"annotation":  {func(n *corev1.Node) { n.Annotations = nil }, 1},
		"condition":   {func(n *corev1.Node) { n.Spec.Taints = n.Spec.Taints[:1] }, 1},
		"label":       {func(n *corev1.Node) { n.Labels["zone"] = "y" }, 2},
		"taint":       {func(n *corev1.Node) { n.Spec.Taints = n.Spec.Taints[1:] }, 2},
		"allocatable": {func(n *corev1.Node) { n.Status.Allocatable["cpu"] = resource.MustParse("3") }, 2},
		"features":    {func(n *corev1.Node) { n.Status.DeclaredFeatures = []string{"F", "G"} }, 2},
	} {
		other := base.DeepCopy()
		other.Name = "b"
		c.change(other)
		shapes := world(t, []*corev1.Node{base, other}).Shapes()
		if len(shapes) != c.shapes {
			t.Errorf("%s: %d shapes, want %d", name, len(shapes), c.shapes)
		}
		if diff := cmp.Diff(want, shapes[0]); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}
