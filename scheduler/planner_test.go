package scheduler_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/scheduler"
)

// counting is a predicate that treats all pods of one kind alike, and counts its calls.
type counting struct{ asked *int }

func (counting) Name() string { return "Counting" }

func (c counting) Check(*corev1.Pod, *scheduler.NodeInfo) *scheduler.Refusal {
	*c.asked++
	return nil
}

func (counting) Signature(b []byte, pod *corev1.Pod) ([]byte, bool) {
	kind := pod.Labels["kind"]
	return append(b, kind...), kind != "unlike any"
}

// A planner calls a predicate for a node once for all similar pods, until the node changes.
func TestPlannerAsksOnce(t *testing.T) {
	asked := 0
	profile := scheduler.Profile{Plugins: []scheduler.Enabled{{Plugin: counting{&asked}}}}
	planner := scheduler.NewPlanner(&profile)
	nodes := []*corev1.Node{node("a", "4", "8Gi"), node("b", "4", "8Gi"), node("c", "4", "8Gi")}
	snapshot := scheduler.NewSnapshot(nodes, nil)
	place := func(kind string, s *scheduler.Snapshot, want int) {
		t.Helper()
		asked = 0
		p := pod(fmt.Sprint("pod-", kind), "1", "1Gi")
		p.Labels = map[string]string{"kind": kind}
		if _, err := planner.Place(p, s); err != nil {
			t.Fatal(err)
		}
		if asked != want {
			t.Errorf("asked %d times about a pod of kind %q, not %d", asked, kind, want)
		}
	}
	place("x", snapshot, 3)
	place("x", snapshot, 0)
	place("y", snapshot, 3)
	place("x", snapshot, 0)
	place("y", snapshot, 0)
	place("", snapshot, 3)
	place("unlike any", snapshot, 3)
	place("unlike any", snapshot, 3)
	place("x", snapshot, 0)
}

// A predicate without hints is helped by every event, one with hints by the events they name.
func TestHintedEvents(t *testing.T) {
	never := scheduler.PredicateFunc("Never", func(*corev1.Pod, *scheduler.NodeInfo) *scheduler.Refusal { return scheduler.Refuse("never") })
	hinted := hinting{scheduler.PredicateFunc("Hinted", func(*corev1.Pod, *scheduler.NodeInfo) *scheduler.Refusal { return nil }), false}
	helped := hinting{scheduler.PredicateFunc("Helped", func(*corev1.Pod, *scheduler.NodeInfo) *scheduler.Refusal { return nil }), true}
	profile := scheduler.Profile{Plugins: []scheduler.Enabled{{Plugin: never}, {Plugin: hinted}, {Plugin: helped}}}
	added, deleted := scheduler.Event{Kind: scheduler.NodeAdded}, scheduler.Event{Kind: scheduler.NodeDeleted}
	for _, tt := range []struct {
		refusedBy []string
		event     scheduler.Event
		want      bool
	}{
		{[]string{"Never"}, added, true},
		{[]string{"Hinted"}, added, false},
		{[]string{"Helped"}, added, true},
		{[]string{"Helped"}, deleted, false},
		{[]string{"Hinted", "Never"}, deleted, true},
		{[]string{"Hinted", "Helped"}, added, true},
		{[]string{"Hinted", "Unknown"}, deleted, true},
		{nil, added, false},
	} {
		if got := profile.MayHelp(pod("p", "", ""), tt.refusedBy, tt.event); got != tt.want {
			t.Errorf("refused by %v, event %d: %v", tt.refusedBy, tt.event.Kind, got)
		}
	}
}

// hinting is a predicate that new nodes help, or not.
type hinting struct {
	scheduler.Predicate
	helps bool
}

func (hinting) Events() scheduler.EventKind                 { return scheduler.NodeAdded }
func (h hinting) MayHelp(*corev1.Pod, scheduler.Event) bool { return h.helps }

// A planner remembers 64 kinds of pods, and forgets the one that did not come for longest. Pods for certain nodes take no
// place.
func TestPlannerForgetsTheOldest(t *testing.T) {
	asked := 0
	certain := prepares{name: "Certain", says: scheduler.Prepared{Nodes: []string{"a"}}}
	for _, foreign := range []bool{false, true} {
		profile := profileOf(counting{&asked})
		if foreign {
			profile = profileOf(counting{&asked}, certainly{certain})
		}
		planner := scheduler.NewPlanner(&profile)
		snapshot := scheduler.NewSnapshot([]*corev1.Node{node("a", "4", "8Gi")}, nil)
		knows := func(kind string) bool {
			asked = 0
			p := pod("p", "", "")
			p.Labels = map[string]string{"kind": kind}
			if _, err := planner.Place(p, snapshot); err != nil {
				t.Fatal(err)
			}
			return asked == 0
		}
		for i := range 64 {
			same(t, false, knows(fmt.Sprint(i)))
		}
		for i := range 64 {
			same(t, true, knows(fmt.Sprint((i+1)%64))) // 1 is the one that did not come for longest
		}
		for i := range 100 {
			if foreign {
				knows(fmt.Sprint("certain", i))
			}
		}
		same(t, false, knows("another"))
		for i := range 64 {
			if i != 1 {
				same(t, true, knows(fmt.Sprint(i)))
			}
		}
		same(t, true, knows("another"))
		same(t, false, knows("1")) // in the place of 0
		same(t, true, knows("2"))
		same(t, false, knows("0"))
	}
}

// certainly leaves certain nodes to pods of a kind.
type certainly struct{ prepares }

func (c certainly) Prepare(pod *corev1.Pod, _ *scheduler.Snapshot) (scheduler.Prepared, error) {
	if strings.HasPrefix(pod.Labels["kind"], "certain") {
		return c.says, nil
	}
	return scheduler.Prepared{}, nil
}

// named is a predicate of a name whose signature is a label, and which refuses pods by it.
type named struct{ label, refused string }

func (n named) Name() string { return n.label }

func (n named) Check(pod *corev1.Pod, _ *scheduler.NodeInfo) *scheduler.Refusal {
	if pod.Labels[n.label] == n.refused {
		return scheduler.Refuse("no " + n.refused)
	}
	return nil
}

func (n named) Signature(b []byte, pod *corev1.Pod) ([]byte, bool) {
	return append(b, pod.Labels[n.label]...), true
}

// Signatures of two plugins do not run into each other.
func TestPlannerTellsPluginsApart(t *testing.T) {
	profile := profileOf(named{"x", "ab"}, named{"y", "none"})
	planner := scheduler.NewPlanner(&profile)
	for x, y := range map[string]string{"a": "bc", "ab": "c"} {
		for range 2 {
			p := pod("p", "", "")
			p.Labels = map[string]string{"x": x, "y": y}
			if _, err := planner.Place(p, three()); (err != nil) != (x == "ab") {
				t.Errorf("%s and %s: %v", x, y, err)
			}
		}
	}
}

// moody is a predicate that fails as often as it is told to.
type moody struct{ fails *int }

func (moody) Name() string { return "Moody" }

func (m moody) Check(*corev1.Pod, *scheduler.NodeInfo) *scheduler.Refusal {
	if *m.fails--; *m.fails >= 0 {
		return &scheduler.Refusal{Err: errors.New("boom")}
	}
	return nil
}

func (moody) Signature(b []byte, _ *corev1.Pod) ([]byte, bool) { return b, true }

// A check that failed is asked again.
func TestPlannerForgetsFailures(t *testing.T) {
	fails := 2
	profile := profileOf(moody{&fails})
	planner := scheduler.NewPlanner(&profile)
	one := scheduler.NewSnapshot([]*corev1.Node{node("a", "1", "1Gi")}, nil)
	for n := range 4 {
		if _, err := planner.Place(pod("p", "", ""), one); (err != nil) != (n < 2) {
			t.Errorf("%d: %v", n, err)
		}
	}
}

// Which node is which is not a matter of their number.
func TestPlannerFollowsNodesThatMove(t *testing.T) {
	profile := profileOf(local{prepares{name: "X", keptFrom: "b"}}, rated{rates{name: "Y", scores: map[string]int64{"d": 9, "c": 5}}})
	planner := scheduler.NewPlanner(&profile)
	state := three().State()
	for n, step := range []struct {
		do   func()
		want string
	}{
		{func() {}, "c"},
		{func() { state.RemoveNode("a"); state.SetNode(node("d", "4", "8Gi")) }, "d"},
		{func() { state.RemoveNode("d"); state.SetNode(node("a", "4", "8Gi")) }, "c"},
		{func() { state.RemoveNode("c") }, "a"},
		{func() { state.RemoveNode("b"); state.SetNode(node("c", "4", "8Gi")) }, "c"},
	} {
		step.do()
		want, got := profile.Schedule(pod("p", "", ""), state.Snapshot()), planner.Schedule(pod("p", "", ""), state.Snapshot())
		same(t, want.String(), got.String())
		if got.Node != step.want {
			t.Errorf("step %d: goes to %s, want %s", n, got.Node, step.want)
		}
	}
}

// The first plugin's hints count as any other's.
func TestWhatMayHelpTheFirst(t *testing.T) {
	deaf := hinting{scheduler.PredicateFunc("Deaf", func(*corev1.Pod, *scheduler.NodeInfo) *scheduler.Refusal { return nil }), false}
	profile := profileOf(deaf)
	same(t, false, profile.MayHelp(pod("p", "", ""), []string{"Deaf"}, scheduler.Event{Kind: scheduler.NodeAdded}))
	same(t, false, profile.MayHelp(pod("p", "", ""), []string{"Unknown"}, scheduler.Event{}))
}

// everything has each role of those that decide.
type everything struct{ rates }

func (everything) Check(*corev1.Pod, *scheduler.NodeInfo) *scheduler.Refusal {
	return scheduler.Refuse("no")
}
func (everything) Holds(*corev1.Pod) *scheduler.Refusal { return scheduler.Refuse("held") }

// A plugin has the roles that its profile gives it.
func TestRoles(t *testing.T) {
	all := everything{rates{name: "All", scores: map[string]int64{"b": 5}}}
	for what, tt := range map[string]struct {
		in     scheduler.Enabled
		held   string
		passes string
		scores int
	}{
		"all":             {scheduler.Enabled{Plugin: all, Weight: 1}, "All", "", 0},
		"no weight":       {scheduler.Enabled{Plugin: all}, "All", "", 0},
		"a priority only": {scheduler.Enabled{Plugin: all, Weight: 1, PriorityOnly: true}, "", "a b c", 1},
		"not even that":   {scheduler.Enabled{Plugin: all, PriorityOnly: true}, "", "a b c", 0},
		"a predicate":     {scheduler.Enabled{Plugin: prepares{name: "P"}, Weight: 1}, "", "a b c", 0},
	} {
		profile := scheduler.Profile{Plugins: []scheduler.Enabled{tt.in}}
		held, _ := profile.Held(pod("p", "", ""))
		d := profile.Schedule(pod("p", "", ""), three())
		if held != tt.held || passing(d) != tt.passes || len(d.Verdicts[0].Scores) != tt.scores {
			t.Errorf("%s: held by %q,\n%v", what, held, d)
		}
	}
}

// cacher is a predicate that is to be used as another one by planners.
type cacher struct {
	scheduler.Predicate
	cached scheduler.Predicate
}

func (c cacher) Cached() scheduler.Plugin { return c.cached }

// A planner uses what a plugin keeps its counts in, and leaves its profile alone.
func TestPlannerUsesWhatIsCached(t *testing.T) {
	profile := profileOf(cacher{refusing("X", "plain"), refusing("X", "cached")})
	planner := scheduler.NewPlanner(&profile)
	for want, schedule := range map[string]func(*corev1.Pod, *scheduler.Snapshot) scheduler.Decision{"cached": planner.Schedule, "plain": profile.Schedule} {
		same(t, want, schedule(pod("p", "1", ""), three()).Verdicts[0].Refusal.Error())
	}
}
