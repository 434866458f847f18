package scheduler_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/scheduler"
)

// prepares is a predicate that says of a pod as a whole what it is told to, and refuses the nodes of a label.
type prepares struct {
	name     string
	says     scheduler.Prepared
	err      error
	asked    *int // how often it was prepared
	keptFrom string
}

func (p prepares) Name() string { return p.name }

func (p prepares) Check(_ *corev1.Pod, n *scheduler.NodeInfo) *scheduler.Refusal {
	if n.Name == p.keptFrom {
		return scheduler.Refuse("node(s) were kept by " + p.name)
	}
	return nil
}

func (p prepares) Prepare(*corev1.Pod, *scheduler.Snapshot) (scheduler.Prepared, error) {
	if p.asked != nil {
		*p.asked++
	}
	return p.says, p.err
}

// local is prepares that is remembered.
type local struct{ prepares }

func (local) Signature(b []byte, _ *corev1.Pod) ([]byte, bool) { return b, true }

func profileOf(plugins ...scheduler.Plugin) scheduler.Profile {
	var p scheduler.Profile
	for _, plugin := range plugins {
		_, scores := plugin.(scheduler.Priority)
		e := scheduler.Enabled{Plugin: plugin}
		if scores {
			e.Weight = 1
		}
		p.Plugins = append(p.Plugins, e)
	}
	return p
}

func three() *scheduler.Snapshot {
	return scheduler.NewSnapshot([]*corev1.Node{node("a", "4", "8Gi"), node("b", "4", "8Gi"), node("c", "4", "8Gi")}, nil)
}

// passing are the names of the nodes that take the pod, in order.
func passing(d scheduler.Decision) string {
	var names []string
	for _, v := range d.Verdicts {
		if v.Refusal == nil {
			names = append(names, v.Node)
		}
	}
	return strings.Join(names, " ")
}

// What a predicate says of the pod as a whole counts for all nodes, whether it is remembered or not.
func TestPrepared(t *testing.T) {
	boom := errors.New("boom")
	never := func(reason string) *scheduler.Refusal {
		return &scheduler.Refusal{Reasons: []string{reason}, Unresolvable: true}
	}
	only := func(name string, nodes ...string) prepares {
		return prepares{name: name, says: scheduler.Prepared{Nodes: nodes}}
	}
	refuses := func(name string, r *scheduler.Refusal) prepares {
		return prepares{name: name, says: scheduler.Prepared{Refusal: r}}
	}
	keeps := func(node string) prepares { return prepares{name: "K", keptFrom: node} }
	for what, tt := range map[string]struct {
		predicates []prepares
		nominated  string
		passes     string
		err        string
		refusedBy  []string
	}{
		"nothing":                      {[]prepares{keeps("")}, "", "a b c", "", nil},
		"the first refuses a node":     {[]prepares{keeps("a"), only("X", "a", "b", "c")}, "", "b c", "", nil},
		"a failure":                    {[]prepares{{name: "X", err: boom}, keeps("a")}, "", "", `running PreFilter plugin "X": boom`, nil},
		"a refusal that is one":        {[]prepares{refuses("X", &scheduler.Refusal{Err: boom})}, "", "", `running PreFilter plugin "X": boom`, nil},
		"nothing to check":             {[]prepares{{name: "X", says: scheduler.Prepared{Skip: true}, keptFrom: "a"}}, "", "a b c", "", nil},
		"refused":                      {[]prepares{refuses("X", scheduler.Refuse("x"))}, "", "", "0/3 nodes are available: x.", []string{"X"}},
		"refused, on certain nodes":    {[]prepares{{name: "X", says: scheduler.Prepared{Refusal: scheduler.Refuse("x"), Nodes: []string{}}}}, "", "", "0/3 nodes are available: x.", []string{"X"}},
		"the last that may change":     {[]prepares{refuses("X", scheduler.Refuse("x")), refuses("Y", scheduler.Refuse("y")), keeps("")}, "", "", "0/3 nodes are available: y.", []string{"Y"}},
		"the first that cannot":        {[]prepares{refuses("X", scheduler.Refuse("x")), refuses("Y", never("y")), refuses("Z", never("z"))}, "", "", "0/3 nodes are available: y.", []string{"Y"}},
		"certain nodes":                {[]prepares{only("X", "c", "a", "unknown")}, "", "a c", "", nil},
		"those of both":                {[]prepares{only("X", "a", "b"), only("Y", "b", "c")}, "", "b", "", nil},
		"an empty list":                {[]prepares{{name: "X", says: scheduler.Prepared{Nodes: []string{}}}, refuses("Z", never("z"))}, "", "", "0/3 nodes are available: node(s) didn't satisfy plugin X.", []string{"X"}},
		"none of both":                 {[]prepares{only("Y", "a"), only("X", "b"), only("Z", "c")}, "", "", "0/3 nodes are available: node(s) didn't satisfy plugin(s) [X Y] simultaneously.", []string{"X", "Y"}},
		"one that is refused":          {[]prepares{only("Y", "a"), only("X", "a", "b"), keeps("a")}, "", "", "0/3 nodes are available: 1 node(s) were kept by K, 2 node(s) didn't satisfy plugin(s) [X Y].", []string{"K", "X", "Y"}},
		"the first of all":             {[]prepares{keeps("a"), only("X", "a")}, "", "", "0/3 nodes are available: 1 node(s) were kept by K, 2 node(s) didn't satisfy plugin(s) [X].", []string{"K", "X"}},
		"unknown ones alone":           {[]prepares{only("X", "z")}, "", "", "0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [X].", []string{"X"}},
		"a nominated one among them":   {[]prepares{only("X", "a", "b")}, "b", "b", "", nil},
		"a nominated one left out":     {[]prepares{only("X", "a", "b")}, "c", "a b", "", nil},
		"a nominated one that refuses": {[]prepares{keeps("b")}, "b", "a c", "", nil},
		"a nominated one that is gone": {[]prepares{keeps("b")}, "z", "a c", "", nil},
		"a nominated one without say":  {[]prepares{keeps("b")}, "c", "c", "", nil},
	} {
		for _, remembered := range []bool{false, true} {
			var all []scheduler.Plugin
			for _, p := range tt.predicates {
				if remembered {
					all = append(all, local{p})
				} else {
					all = append(all, p)
				}
			}
			profile := profileOf(all...)
			planner := scheduler.NewPlanner(&profile)
			p := nominated(pod("p", "1", "1Gi"), tt.nominated)
			// What an evaluation before left behind does not show.
			full := scheduler.NewPlanner(&profile)
			_ = full.Schedule(nominated(p.DeepCopy(), ""), three())
			for n, d := range []scheduler.Decision{profile.Schedule(p, three()), planner.Schedule(p, three()), planner.Schedule(p, three()), full.Schedule(p, three())} {
				at := fmt.Sprintf("%s, remembered %t, %d", what, remembered, n)
				text := ""
				if d.Err != nil {
					text = d.Err.Error()
				}
				if passing(d) != tt.passes || text != tt.err {
					t.Errorf("%s: passes %q, error %q", at, passing(d), text)
				}
				var fit *scheduler.FitError
				if errors.As(d.Err, &fit) && !slices.Equal(fit.RefusedBy, tt.refusedBy) {
					t.Errorf("%s: refused by %q", at, fit.RefusedBy)
				}
				for _, v := range d.Verdicts {
					if r := v.Refusal; r != nil && strings.Contains(r.Error(), "didn't satisfy") && !r.Unresolvable {
						t.Errorf("%s: removing pods from %s might help", at, v.Node)
					}
				}
			}
		}
	}
}

// Without nodes nobody is asked.
func TestPreparedWithoutNodes(t *testing.T) {
	profile := profileOf(prepares{name: "X", err: errors.New("boom")})
	if d := profile.Schedule(pod("p", "", ""), scheduler.NewSnapshot(nil, nil)); !errors.Is(d.Err, scheduler.ErrNoNodes) {
		t.Errorf("error %v", d.Err)
	}
}

// What failed is asked again, and what a predicate says of the pod as a whole is asked once for all that are alike, unless it
// leaves certain nodes.
func TestPreparedOnce(t *testing.T) {
	for what, tt := range map[string]struct {
		p    prepares
		want int
	}{
		"a failure":     {prepares{err: errors.New("boom")}, 3},
		"an answer":     {prepares{}, 1},
		"certain nodes": {prepares{says: scheduler.Prepared{Nodes: []string{"a"}}}, 3},
	} {
		asked := 0
		tt.p.name, tt.p.asked = "X", &asked
		profile := profileOf(local{tt.p})
		planner := scheduler.NewPlanner(&profile)
		for range 3 {
			_, _ = planner.Place(pod("p", "", ""), three())
		}
		if asked != tt.want {
			t.Errorf("%s: prepared %d times, want %d", what, asked, tt.want)
		}
	}
}

// What is remembered of others has no say in what a predicate that is not is asked, and nodes that are left out are not asked
// about.
func TestPreparedBesideOthers(t *testing.T) {
	prepared, asked := 0, 0
	profile := profileOf(counting{&asked}, prepares{name: "X", asked: &prepared, says: scheduler.Prepared{Nodes: []string{"b"}}})
	planner := scheduler.NewPlanner(&profile)
	for n := range 3 {
		if node, err := planner.Place(pod("p", "", ""), three()); node != "b" || err != nil || prepared != n+1 || asked != n+1 {
			t.Errorf("placed on %s, %v; prepared %d times, asked %d times", node, err, prepared, asked)
		}
	}
	prepared = 0
	profile = profileOf(counting{&asked}, prepares{name: "X", asked: &prepared})
	planner = scheduler.NewPlanner(&profile)
	snapshot := three()
	for range 3 {
		if _, err := planner.Place(pod("p", "", ""), snapshot); err != nil {
			t.Error(err)
		}
	}
	same(t, 3, prepared)
}

// rates is a priority that says of the nodes what it is told to.
type rates struct {
	name     string
	scores   map[string]int64
	prepared *scheduler.PreparedScores
	err      error
	asked    *int
}

func (r rates) Name() string { return r.name }

func (r rates) Score(_ *corev1.Pod, n *scheduler.NodeInfo) int64 {
	if r.asked != nil {
		*r.asked++
	}
	return r.scores[n.Name]
}

func (r rates) PrepareScores(*corev1.Pod, *scheduler.Snapshot, []*scheduler.NodeInfo) (scheduler.PreparedScores, error) {
	if r.prepared == nil {
		return scheduler.PreparedScores{}, r.err
	}
	return *r.prepared, r.err
}

// halves is rates that has halves of its scores.
type halves struct{ rates }

func (h halves) Normalize(_ *corev1.Pod, scores []int64) {
	if len(scores) == 0 {
		panic("asked about no scores")
	}
	for i := range scores {
		scores[i] /= 2
	}
}

// rated is rates that is remembered.
type rated struct{ rates }

func (rated) Signature(b []byte, _ *corev1.Pod) ([]byte, bool) { return b, true }

// The highest total wins, wherever it comes; who has no opinion adds nothing, and who fails fails the attempt.
func TestScores(t *testing.T) {
	of := func(a, b, c int64) map[string]int64 { return map[string]int64{"a": a, "b": b, "c": c} }
	flat := func(*scheduler.NodeInfo) int64 { return 7 }
	for what, tt := range map[string]struct {
		first, second scheduler.Plugin
		want          string
		totals        string
		err           string
	}{
		"the first":       {rates{name: "X", scores: of(3, 1, 1)}, rates{name: "Y", scores: of(1, 2, 2)}, "a", "[4 3 3]", ""},
		"the middle":      {rates{name: "X", scores: of(3, 9, 1)}, rates{name: "Y", scores: of(1, 2, 2)}, "b", "[4 11 3]", ""},
		"the last":        {rates{name: "X", scores: of(1, 2, 3)}, rates{name: "Y"}, "c", "[1 2 3]", ""},
		"halves":          {rates{name: "X", scores: of(1, 2, 3)}, halves{rates{name: "Y", scores: of(200, 4, 4)}}, "a", "[101 4 5]", ""},
		"prepared":        {rates{name: "X", scores: of(1, 2, 3), prepared: &scheduler.PreparedScores{Score: flat}}, rates{name: "Y", scores: of(2, 0, 0)}, "a", "[9 7 7]", ""},
		"no opinion":      {halves{rates{name: "X", scores: of(8, 0, 0), prepared: &scheduler.PreparedScores{Skip: true}}}, rates{name: "Y", scores: of(0, 1, 0)}, "b", "[0 1 0]", ""},
		"a failure":       {rates{name: "X", err: errors.New("boom")}, rates{name: "Y"}, "", "[0 0 0]", `running PreScore plugin "X": boom`},
		"it's remembered": {rated{rates{name: "X", err: errors.New("boom")}}, rates{name: "Y"}, "", "[0 0 0]", `running PreScore plugin "X": boom`},
	} {
		profile := profileOf(tt.first, tt.second)
		planner := scheduler.NewPlanner(&profile)
		for n, d := range []scheduler.Decision{profile.Schedule(pod("p", "", ""), three()), planner.Schedule(pod("p", "", ""), three()), planner.Schedule(pod("p", "", ""), three())} {
			var totals []int64
			for _, v := range d.Verdicts {
				totals = append(totals, v.Total)
			}
			text := ""
			if d.Err != nil {
				text = d.Err.Error()
			}
			if d.Node != tt.want || fmt.Sprint(totals) != tt.totals || text != tt.err {
				t.Errorf("%s, %d: goes to %q by %v, error %q", what, n, d.Node, totals, text)
			}
		}
	}
}

// Scores that are remembered are asked once a node.
func TestScoresAreAskedOnce(t *testing.T) {
	asked := 0
	profile := profileOf(rated{rates{name: "X", asked: &asked}})
	planner := scheduler.NewPlanner(&profile)
	state := three().State()
	for _, want := range []int{3, 0, 1} {
		asked = 0
		if _, err := planner.Place(pod("p", "", ""), state.Snapshot()); err != nil || asked != want {
			t.Errorf("asked %d times, want %d: %v", asked, want, err)
		}
		if want == 0 {
			state.SetPod(on(pod("q", "", ""), "b"))
		}
	}
}

// Which of equals wins is the same in every release: decisions can be repeated.
func TestTiesAreAsEver(t *testing.T) {
	profile := profileOf(rates{name: "X"})
	profile.Seed = 42
	won := ""
	for i := range 60 {
		won += profile.Schedule(pod(fmt.Sprint("p", i), "", ""), three()).Node
	}
	if want := "cabcabccbababbcaacabcabbaacaacabababbccbacbbabaacacabaccabab"; won != want {
		t.Errorf("won: %s, want %s", won, want)
	}
}

// The node for which a pod is nominated passes, whatever was said of it about the pod before.
func TestNomineeThatRefusedAnother(t *testing.T) {
	profile := defaults()
	planner := scheduler.NewPlanner(&profile)
	if d := planner.Schedule(pod("big", "8", "1Gi"), three()); d.Node != "" {
		t.Fatalf("the big one is placed:\n%v", d)
	}
	d := planner.Schedule(nominated(pod("p", "1", "1Gi"), "b"), three())
	if d.Node != "b" || passing(d) != "b" || len(d.Verdicts) != 1 || d.Verdicts[0].RefusedBy != "" {
		t.Errorf("decided\n%v", d)
	}
}
