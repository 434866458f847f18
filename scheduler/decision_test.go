package scheduler_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/plugins"
	"github.com/keelson-dev/keelson/scheduler/schedulertest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Error(diff)
	}
}

func tainted(n *corev1.Node, effect corev1.TaintEffect) *corev1.Node {
	n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "dedicated", Value: "db", Effect: effect})
	return n
}

func TestDecisionText(t *testing.T) {
	cordoned := node("node-4", "8", "16Gi")
	cordoned.Spec.Unschedulable = true
	cluster := scheduler.NewSnapshot([]*corev1.Node{
		node("node-1", "4", "8Gi"), tainted(node("node-2", "8", "16Gi"), corev1.TaintEffectPreferNoSchedule),
		tainted(node("node-3", "8", "16Gi"), corev1.TaintEffectNoSchedule), cordoned, node("node-5", "2", "4Gi"),
	}, []*corev1.Pod{on(pod("busy", "1", "1Gi"), "node-1"), on(pod("huge", "1900m", "3Gi"), "node-5")})
	one := scheduler.NewSnapshot([]*corev1.Node{node("node-1", "4", "8Gi"), cordoned}, nil)
	gated := pod("gated", "", "")
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/quota"}}
	failing := defaults()
	failing.Plugins = append(failing.Plugins, scheduler.Enabled{Plugin: scheduler.PredicateFunc("Broken", func(_ *corev1.Pod, n *scheduler.NodeInfo) *scheduler.Refusal {
		if n.Name == "node-2" {
			return &scheduler.Refusal{Err: errors.New("out of order")}
		}
		return nil
	})})
	tests := map[string]struct {
		profile  scheduler.Profile
		pod      *corev1.Pod
		snapshot *scheduler.Snapshot
	}{
		"placed":     {defaults(), pod("web", "500m", "1Gi"), cluster},
		"unplaced":   {defaults(), pod("giant", "16", "1Gi"), cluster},
		"only-one":   {defaults(), pod("web", "500m", "1Gi"), one},
		"gated":      {defaults(), gated, cluster},
		"no-nodes":   {defaults(), pod("web", "", ""), scheduler.NewSnapshot(nil, nil)},
		"failed":     {failing, pod("web", "500m", "1Gi"), cluster},
		"no-opinion": {scheduler.Profile{}, pod("web", "", ""), cluster},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := tt.profile.Schedule(tt.pod, tt.snapshot)
			if (d.Node == "") != (d.Err != nil) {
				t.Errorf("node %q, error %v", d.Node, d.Err)
			}
			golden(t, name, d.String())
		})
	}
}

func TestFitErrorWithPreemption(t *testing.T) {
	err := &scheduler.FitError{Nodes: 3, Reasons: map[string]int{"Insufficient cpu": 3},
		Preemption: "preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod."}
	const want = "0/3 nodes are available: 3 Insufficient cpu. preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod."
	if err.Error() != want {
		t.Errorf("got %s", err)
	}
	if got := (&scheduler.FitError{Nodes: 1}).Error(); got != "0/1 nodes are available:" {
		t.Errorf("got %q", got)
	}
}

func TestDecisionAddsUp(t *testing.T) {
	profile := defaults()
	s := scheduler.NewSnapshot([]*corev1.Node{node("a", "4", "8Gi"), tainted(node("b", "4", "8Gi"), corev1.TaintEffectPreferNoSchedule)}, nil)
	d := profile.Schedule(pod("p", "1", "1Gi"), s)
	for _, v := range d.Verdicts {
		var sum int64
		for _, score := range v.Scores {
			if score.Weighted != score.Normalized*score.Weight {
				t.Errorf("%+v does not multiply", score)
			}
			sum += score.Weighted
		}
		if sum != v.Total {
			t.Errorf("%s adds up to %d, not %d", v.Node, sum, v.Total)
		}
	}
	if d.Node != "a" || d.Verdicts[0].Total-d.Verdicts[1].Total != 300 {
		t.Errorf("a PreferNoSchedule taint costs 300 of\n%v", d)
	}
}

func TestInvalidScore(t *testing.T) {
	for _, score := range []int64{-1, 101} {
		profile := scheduler.Profile{Plugins: []scheduler.Enabled{{Weight: 1,
			Plugin: scheduler.PriorityFunc("Wild", func(*corev1.Pod, *scheduler.NodeInfo) int64 { return score })}}}
		d := profile.Schedule(pod("p", "", ""), scheduler.NewSnapshot([]*corev1.Node{node("a", "1", "1"), node("b", "1", "1")}, nil))
		if d.Err == nil || !strings.Contains(d.Err.Error(), fmt.Sprintf(`plugin "Wild" returns an invalid score %d`, score)) {
			t.Errorf("error %v", d.Err)
		}
		if strings.Contains(d.String(), "TOTAL") {
			t.Errorf("prints scores for refused nodes:\n%v", d)
		}
	}
}

func TestScale(t *testing.T) {
	tests := []struct{ in, up, down []int64 }{
		{nil, nil, nil},
		{[]int64{0, 0}, []int64{0, 0}, []int64{100, 100}},
		{[]int64{1, 2, 3}, []int64{33, 66, 100}, []int64{67, 34, 0}},
		{[]int64{1000, 10}, []int64{100, 1}, []int64{0, 99}},
	}
	for _, tt := range tests {
		up, down := append([]int64(nil), tt.in...), append([]int64(nil), tt.in...)
		scheduler.Scale(up, false)
		scheduler.Scale(down, true)
		if diff := cmp.Diff([][]int64{tt.up, tt.down}, [][]int64{up, down}); diff != "" {
			t.Errorf("%v: %s", tt.in, diff)
		}
	}
}

func TestTiesAreSpreadAndRepeat(t *testing.T) {
	var nodes []*corev1.Node
	for i := range 10 {
		nodes = append(nodes, node(fmt.Sprintf("node-%d", i), "4", "8Gi"))
	}
	s := scheduler.NewSnapshot(nodes, nil)
	place := func(seed uint64) (all []string) {
		profile := defaults()
		profile.Seed = seed
		for i := range 1000 {
			all = append(all, profile.Schedule(pod(fmt.Sprintf("pod-%d", i), "1", "1Gi"), s).Node)
		}
		return all
	}
	first := place(1)
	if !cmp.Equal(first, place(1)) {
		t.Error("the same seed decides differently")
	}
	if cmp.Equal(first, place(2)) {
		t.Error("another seed decides the same")
	}
	counts := map[string]int{}
	for _, n := range first {
		counts[n]++
	}
	for _, n := range nodes {
		if counts[n.Name] < 60 || counts[n.Name] > 140 {
			t.Errorf("%s won %d of 1000 ties of ten", n.Name, counts[n.Name])
		}
	}
}

func TestProfileValidate(t *testing.T) {
	p := func(name string) scheduler.Enabled {
		return scheduler.Enabled{Plugin: scheduler.PredicateFunc(name, nil)}
	}
	w := func(name string, weight int64) scheduler.Enabled {
		return scheduler.Enabled{Plugin: scheduler.PriorityFunc(name, nil), Weight: weight}
	}
	of := func(plugins ...scheduler.Enabled) scheduler.Profile { return scheduler.Profile{Plugins: plugins} }
	fit := scheduler.Enabled{Plugin: plugins.NodeResourcesFit{}}
	tests := map[string]struct {
		profile scheduler.Profile
		ok      bool
	}{
		"empty":             {scheduler.Profile{}, true},
		"defaults":          {defaults(), true},
		"double":            {of(p("a"), p("a")), false},
		"double, of two":    {of(p("a"), w("a", 1)), false},
		"no plugin":         {of(scheduler.Enabled{Weight: 1}), false},
		"no name":           {of(p("")), false},
		"a priority":        {of(w("a", 1)), true},
		"no weight":         {of(w("a", 0)), false},
		"negative weight":   {of(w("a", -1)), false},
		"refuses only":      {of(fit), true},
		"neither":           {of(scheduler.Enabled{Plugin: plugins.NodeResourcesFit{}, PriorityOnly: true}), false},
		"scores only":       {of(scheduler.Enabled{Plugin: plugins.NodeResourcesFit{}, PriorityOnly: true, Weight: 1}), true},
		"weight, no scores": {of(scheduler.Enabled{Plugin: plugins.NodeName{}, Weight: 1}), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := tt.profile.Validate()
			if (err == nil) != tt.ok || err != nil && !errors.Is(err, scheduler.ErrProfile) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// A Planner's cache has no effect on decisions, whatever changes in the cluster, even if some predicates and
// priorities are not Local.
func TestPlannerDecidesLikeItsProfile(t *testing.T) {
	foreign := scheduler.PredicateFunc("Foreign", func(pod *corev1.Pod, n *scheduler.NodeInfo) *scheduler.Refusal {
		if (len(pod.Name)+len(n.Pods))%4 == 0 {
			return scheduler.Refuse("node(s) were foreign")
		}
		return nil
	})
	mood := scheduler.PriorityFunc("Mood", func(pod *corev1.Pod, n *scheduler.NodeInfo) int64 {
		return int64(len(pod.Name)*len(n.Name)+len(n.Pods)) % 101
	})
	mixed := defaults()
	mixed.Plugins = append([]scheduler.Enabled{{Plugin: plugins.NodeResourcesFit{}, Weight: 1}, {Plugin: foreign}},
		scheduler.Without(plugins.Default(), "NodeResourcesFit")...)
	mixed.Plugins = append(mixed.Plugins, scheduler.Enabled{Plugin: mood, Weight: 2})
	profiles := []scheduler.Profile{defaults(), mixed}
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		r := rand.New(rand.NewPCG(seed, 0))
		profile := profiles[seed%2]
		profile.Seed = seed
		planner := scheduler.NewPlanner(&profile)
		w := world{nodes: map[string]*corev1.Node{}, pods: map[string]*corev1.Pod{}}
		var s scheduler.State
		var waiting []*corev1.Pod
		for i := range 12 {
			waiting = append(waiting, schedulertest.RandomPod(r, 100+i))
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			w.step(r, &s)
			p := waiting[r.IntN(len(waiting))].DeepCopy()
			p.Name += fmt.Sprint(r.IntN(20)) // another of its class
			snapshot := s.Snapshot()
			want, got := profile.Schedule(p, snapshot), planner.Schedule(p, snapshot)
			if diff := cmp.Diff(want.String(), got.String()); diff != "" {
				t.Fatalf("(-profile +planner)\n%s", diff)
			}
			node, err := planner.Place(p, snapshot)
			if node != want.Node || fmt.Sprint(err) != fmt.Sprint(want.Err) {
				t.Fatalf("Place says %q, %v; Schedule %q, %v", node, err, want.Node, want.Err)
			}
		}
	})
}

func TestPlannerForgetsClasses(t *testing.T) {
	profile := defaults()
	planner := scheduler.NewPlanner(&profile)
	s := scheduler.NewSnapshot([]*corev1.Node{node("a", "4", "8Gi"), node("b", "4", "8Gi")}, nil)
	for i := range 500 {
		p := pod("p", fmt.Sprintf("%dm", i%170), "1Gi")
		if want, got := profile.Schedule(p, s).String(), planner.Schedule(p, s).String(); want != got {
			t.Fatalf("decides\n%s\nnot\n%s", got, want)
		}
	}
}

// The chosen one comes first among many equals, and what looks like markup is text.
func TestDecisionTextOfMany(t *testing.T) {
	var nodes []*corev1.Node
	for i := range 40 {
		nodes = append(nodes, node(fmt.Sprintf("n%02d", i), "1", "1Gi"))
	}
	profile := profileOf(rates{name: "<x>"}, rates{name: "Y"}, scheduler.PredicateFunc("P", func(_ *corev1.Pod, n *scheduler.NodeInfo) *scheduler.Refusal {
		switch n.Name {
		case "n00":
			return scheduler.Refuse("<b>")
		case "n01":
			return scheduler.Refuse("plain")
		}
		return nil
	}))
	for i := range 20 {
		d := profile.Schedule(pod(fmt.Sprint("p", i), "", ""), scheduler.NewSnapshot(nodes, nil))
		first := d.Feasible()
		if first[0].Node != d.Node || len(first) != 38 || !slices.IsSortedFunc(first[1:], func(a, b scheduler.Verdict) int { return strings.Compare(a.Node, b.Node) }) {
			t.Fatalf("not in order:\n%v", d)
		}
		text := d.String()
		same(t, "  NODE  TOTAL  <x>  Y", strings.Split(text, "\n")[1])
		same(t, "  "+d.Node+"   0      0    0", strings.Split(text, "\n")[2])
		same(t, true, strings.HasSuffix(text, `
  NODE  REFUSED BY  REASON  PREEMPTION
  n00   P           <b>     might help
  n01   P           plain   might help
`))
	}
}

func TestRefusalIsAnError(t *testing.T) {
	boom := errors.New("boom")
	for want, r := range map[string]*scheduler.Refusal{"boom": {Reasons: []string{"a"}, Err: boom}, "a, b": scheduler.Refuse("a", "b"), "": nil} {
		if r.Error() != want {
			t.Errorf("says %q, want %q", r.Error(), want)
		}
	}
	if !errors.Is(&scheduler.Refusal{Err: boom}, boom) || errors.Is(scheduler.Refuse("a"), boom) {
		t.Error("does not lead to what failed")
	}
}
