package plugins_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/groups"
	"github.com/keelson-dev/keelson/scheduler/plugins"
)

// A node that moves to another zone takes its pods along, whatever was counted before.
func TestNodesThatMove(t *testing.T) {
	profile := scheduler.Profile{Plugins: []scheduler.Enabled{
		{Plugin: plugins.PodTopologySpread{}, Weight: 2}, {Plugin: plugins.InterPodAffinity{}, Weight: 3},
	}}
	planner := scheduler.NewPlanner(&profile)
	var bound []*corev1.Pod
	for name, node := range map[string]string{"1": "a", "2": "a", "3": "b", "4": "c", "5": "d"} {
		bound = append(bound, guest(name, "app=web", living(node)))
	}
	nodes := street()
	state := scheduler.NewSnapshot(nodes, bound).State()
	asking := []*corev1.Pod{
		guest("hard", "app=web", spread(1, "zone", corev1.DoNotSchedule, app("web"))),
		guest("soft", "app=web", spread(1, "zone", corev1.ScheduleAnyway, app("web"))),
		guest("near", "", near(term("zone", app("web")))),
		guest("apart", "", apart(term("zone", app("web")))),
	}
	for i, zone := range []string{"1", "2", "", "3", "1", "2", "2", "1"} {
		moved := nodes[i%2].DeepCopy()
		if delete(moved.Labels, "zone"); zone != "" {
			moved.Labels["zone"] = zone
		}
		nodes[i%2] = moved
		state.SetNode(moved)
		for _, p := range asking {
			want, got := profile.Schedule(p, scheduler.NewSnapshot(nodes, bound)), planner.Schedule(p, state.Snapshot())
			if want.String() != got.String() {
				t.Fatalf("after move %d the planner says\n%v\ninstead of\n%v", i, got, want)
			}
		}
	}
}

// A node that lacks one of the labels is refused for good, however many pods it has of the other domain.
func TestNodeWithoutALabelAndOtherPods(t *testing.T) {
	s := scheduler.NewSnapshot(street(), nil)
	asking := guest("p", "app=web", spread(1, "zone", corev1.DoNotSchedule, app("web")), spread(1, "rack", corev1.DoNotSchedule, app("web")))
	prepared, err := plugins.PodTopologySpread{}.Prepare(asking, s)
	if err != nil {
		t.Fatal(err)
	}
	was := s.Node("a")
	is := scheduler.NewNodeInfo(was.Node, guest("1", "app=web", living("a")), guest("2", "app=web", living("a")))
	if got := prepared.CheckChanged(was, is); got == nil || !got.Unresolvable {
		t.Errorf("refused because %v", got)
	}
}

// Nodes that lack one of a pod's labels do not count, for none of its constraints.
func TestNodesWithoutALabelDoNotCount(t *testing.T) {
	nodes := street()
	for i, rack := range []string{"1", "", "2", ""} {
		if rack != "" {
			nodes[i].Labels["rack"] = rack
		}
	}
	s := scheduler.NewSnapshot(nodes, []*corev1.Pod{guest("1", "app=web", living("b")), guest("2", "app=web", living("b")), guest("3", "app=web", living("c"))})
	const hard, soft = corev1.DoNotSchedule, corev1.ScheduleAnyway
	for _, how := range []corev1.UnsatisfiableConstraintAction{hard, soft} {
		profile := scheduler.Profile{Plugins: []scheduler.Enabled{{Plugin: plugins.PodTopologySpread{}, Weight: 1}}}
		d := profile.Schedule(guest("p", "app=web", spread(1, "zone", how, app("web")), spread(1, "rack", how, app("web"))), s)
		if d.Node != "a" {
			t.Errorf("%s: scheduled\n%v", how, d)
		}
	}
}

// WithGroups leaves the plugins that it is given as they are.
func TestWithGroupsCopies(t *testing.T) {
	given, g := []scheduler.Enabled{{Plugin: plugins.PodTopologySpread{}}, {Plugin: plugins.InterPodAffinity{}}}, related()
	all := plugins.WithGroups(given, g)
	of := func(list []scheduler.Enabled) [2]any {
		return [2]any{list[0].Plugin.(plugins.PodTopologySpread).Groups, list[1].Plugin.(plugins.InterPodAffinity).Groups}
	}
	var none *groups.Groups
	if of(all) != [2]any{g, g} || of(given) != [2]any{none, none} {
		t.Errorf("given are %v now, got %v", given, all)
	}
}

// A node that comes to a new domain is not kept by what there is in others.
func TestNodeThatComesToANewDomain(t *testing.T) {
	profile := scheduler.Profile{Plugins: []scheduler.Enabled{{Plugin: plugins.InterPodAffinity{}}}}
	planner := scheduler.NewPlanner(&profile)
	nodes := street()[:2]
	for name, alone := range map[string]*corev1.Pod{
		"unwanted": guest("1", "", apart(term("zone", app("web"))), living("a")), "apart": guest("1", "app=web", living("a")),
	} {
		state := scheduler.NewSnapshot(nodes, []*corev1.Pod{alone}).State()
		p := guest("p", "app=web")
		if name == "apart" {
			p = guest("p", "", apart(term("zone", app("web"))))
		}
		if d := planner.Schedule(p, state.Snapshot()); d.Node != "" {
			t.Errorf("%s: scheduled\n%v", name, d)
		}
		moved := nodes[1].DeepCopy()
		moved.Labels["zone"] = "new"
		state.SetNode(moved)
		state.Nominate(guest("nominee", ""), "b")
		if d := planner.Schedule(p, state.Snapshot()); d.Node != "b" || verdicts(d)["a"] == "" {
			t.Errorf("%s, after the move: scheduled\n%v", name, d)
		}
	}
}

// What is counted for a pod that tolerates a taint says nothing of one that does not.
func TestTaintsTellPodsApart(t *testing.T) {
	nodes := street()
	nodes[2].Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
	s := scheduler.NewSnapshot(nodes, []*corev1.Pod{guest("1", "app=web", living("a")), guest("2", "app=web", living("a"))})
	honors := func(c *corev1.TopologySpreadConstraint) { c.NodeTaintsPolicy = ptr.To(corev1.NodeInclusionPolicyHonor) }
	profile := scheduler.Profile{Plugins: []scheduler.Enabled{{Plugin: plugins.PodTopologySpread{}, Weight: 1}}}
	planner := scheduler.NewPlanner(&profile)
	for _, how := range []corev1.UnsatisfiableConstraintAction{corev1.DoNotSchedule, corev1.ScheduleAnyway} {
		for i, tolerant := range []bool{true, false, true} {
			p := guest(fmt.Sprint("p", i), "app=web", spread(1, "zone", how, app("web"), honors))
			if tolerant {
				p.Spec.Tolerations = []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpExists}}
			}
			want, got := profile.Schedule(p, s), planner.Schedule(p, s)
			if want.String() != got.String() {
				t.Errorf("%s, tolerant %t: the planner says\n%v\ninstead of\n%v", how, tolerant, got, want)
			}
			// Zone 1 may have more only if zone 2 does not count.
			if how == corev1.DoNotSchedule && (verdicts(want)["a"] == "") == tolerant {
				t.Errorf("tolerant %t: decided\n%v", tolerant, want)
			}
		}
	}
}

// The fewest pods of all domains stay the fewest when those of another change.
func TestSpreadingWithoutAPod(t *testing.T) {
	var pods []*corev1.Pod
	for i, name := range []string{"a", "a", "a", "c", "c", "d", "d"} {
		pods = append(pods, guest(fmt.Sprint(i), "app=web", living(name)))
	}
	s := scheduler.NewSnapshot(street(), pods)
	prepared, err := plugins.PodTopologySpread{}.Prepare(guest("p", "app=web", spread(1, corev1.LabelHostname, corev1.DoNotSchedule, app("web"))), s)
	if err != nil {
		t.Fatal(err)
	}
	is := func(name string, pods ...*corev1.Pod) *scheduler.Refusal {
		return prepared.CheckChanged(s.Node(name), scheduler.NewNodeInfo(s.Node(name).Node, pods...))
	}
	if got := is("a", pods[0]); got.Error() != skewed { // b has none still
		t.Errorf("a: %v", got)
	}
	if got := is("b", pods[0]); got != nil { // now no node has fewer
		t.Errorf("b: %v", got)
	}
	if got := is("a"); got != nil {
		t.Errorf("a without any: %v", got)
	}
}

// What of a pod cannot be parsed is named by what it is for, and scores nothing.
func TestConstraintsThatCannotBeParsed(t *testing.T) {
	s := scheduler.NewSnapshot(street(), nil)
	const text = `topology spread constraints: "Near" is not a valid label selector operator`
	for how, want := range map[corev1.UnsatisfiableConstraintAction]string{
		corev1.DoNotSchedule:  `running PreFilter plugin "PodTopologySpread": get constraints from pod: obtaining pod's hard ` + text,
		corev1.ScheduleAnyway: `running PreScore plugin "PodTopologySpread": calculating preScoreState: obtaining pod's soft ` + text,
	} {
		profile := scheduler.Profile{Plugins: []scheduler.Enabled{{Plugin: plugins.PodTopologySpread{}, Weight: 1}}}
		if d := profile.Schedule(guest("p", "", spread(1, "zone", how, unreadable())), s); d.Err == nil || d.Err.Error() != want {
			t.Errorf("%s: %v", how, d.Err)
		}
		byDefault := plugins.PodTopologySpread{Groups: related(), Defaults: []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: how, LabelSelector: unreadable()}}}
		profile.Plugins[0].Plugin = byDefault
		want = strings.Replace(want, "obtaining pod's", "setting default", 1)
		if d := profile.Schedule(guest("p", "app=web"), s); d.Err == nil || d.Err.Error() != want {
			t.Errorf("by default, %s: %v", how, d.Err)
		}
	}
	if got := (plugins.InterPodAffinity{}).Score(guest("p", "", ratherNear(1, term("zone", unreadable()))), s.Node("a")); got != 0 {
		t.Errorf("scores %d", got)
	}
}

// Pods on nodes where the pod cannot go by its affinity do not count in their zones.
func TestScoresLeaveOutNodesByAffinity(t *testing.T) {
	nodes := street()
	for _, n := range nodes[1:3] {
		n.Labels["fits"] = "yes"
	}
	s := scheduler.NewSnapshot(nodes, []*corev1.Pod{guest("1", "app=web", living("a")), guest("2", "app=web", living("a")), guest("3", "app=web", living("c"))})
	profile := scheduler.Profile{Plugins: []scheduler.Enabled{{Plugin: plugins.NodeAffinity{}}, {Plugin: plugins.PodTopologySpread{}, Weight: 1}}}
	p := guest("p", "app=web", spread(1, "zone", corev1.ScheduleAnyway, app("web")))
	p.Spec.NodeSelector = map[string]string{"fits": "yes"}
	if d := profile.Schedule(p, s); d.Node != "b" {
		t.Errorf("decided\n%v", d)
	}
}

// Nodes that are not in the snapshot are scored by their labels, or not at all.
func TestScoresOfForeignNodes(t *testing.T) {
	s := scheduler.NewSnapshot(street(), []*corev1.Pod{guest("1", "app=web", living("a"))})
	foreign := node("e")
	foreign.Labels = map[string]string{"zone": "1"}
	some := []*scheduler.NodeInfo{s.Node("a"), scheduler.NewNodeInfo(foreign)}
	prepared, err := plugins.InterPodAffinity{}.PrepareScores(guest("p", "", ratherNear(3, term("zone", app("web")))), s, some)
	if err != nil || prepared.Scores != nil || prepared.Score(some[1]) != 3 {
		t.Errorf("InterPodAffinity: %+v, %v", prepared, err)
	}
	if _, err := (plugins.PodTopologySpread{}).PrepareScores(guest("p", "", spread(3, "zone", corev1.ScheduleAnyway, app("web"))), s, some); err == nil {
		t.Error("PodTopologySpread scores them")
	}
}
