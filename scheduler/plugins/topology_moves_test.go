package plugins_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

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
