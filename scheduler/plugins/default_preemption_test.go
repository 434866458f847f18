package plugins_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/budgets"
	"github.com/keelson-dev/keelson/scheduler/plugins"
)

// running describes a pod on a node: "NAME NODE CPU PRIORITY STARTED", the last in seconds or "-", and further words
// that are labels.
func running(t *testing.T, description string) *corev1.Pod {
	t.Helper()
	var name, node, cpu, started string
	var priority int32
	fields := strings.Fields(description)
	if _, err := fmt.Sscan(strings.Join(fields[:5], " "), &name, &node, &cpu, &priority, &started); err != nil {
		t.Fatalf("%q: %v", description, err)
	}
	p := pod("cpu", cpu)
	p.Namespace, p.Name, p.UID = "default", name, types.UID(name)
	p.Spec.NodeName, p.Spec.Priority = node, &priority
	if started != "-" {
		d, err := time.ParseDuration(started + "s")
		if err != nil {
			t.Fatal(err)
		}
		p.Status.StartTime = ptr.To(metav1.Unix(1e9, 0))
		p.Status.StartTime.Time = p.Status.StartTime.Add(d)
	}
	for _, label := range fields[5:] {
		metav1.SetMetaDataLabel(&p.ObjectMeta, label, "yes")
	}
	return p
}

// budget allows so many disruptions of the pods with a label.
func budget(name, label string, allowed int32, disrupted ...string) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
	b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{label: "yes"}}
	b.Status.DisruptionsAllowed = allowed
	for _, name := range disrupted {
		b.Status.DisruptedPods = map[string]metav1.Time{name: {}}
	}
	return b
}

// following returns budgets as an informer shows them.
func following(t *testing.T, pdbs ...*policyv1.PodDisruptionBudget) *budgets.Budgets {
	i := informer.New[*policyv1.PodDisruptionBudget](memory.New[*policyv1.PodDisruptionBudget](), informer.Options{})
	b := budgets.New(i)
	for _, pdb := range pdbs {
		i.Put(pdb)
	}
	return b
}

// preempt returns the node and the victims of a preemption: "NODE: A B", or the error.
func preempt(t *testing.T, p plugins.DefaultPreemption, preemptor *corev1.Pod, nodes []*corev1.Node, pods []*corev1.Pod, more ...scheduler.Enabled) string {
	t.Helper()
	profile := scheduler.Profile{Plugins: scheduler.With(plugins.Default(), more...)}
	n, err := p.Preempt(context.Background(), profile.Trial(preemptor, scheduler.NewSnapshot(nodes, pods)))
	if err != nil {
		return err.Error()
	}
	result := n.Node + ":"
	for _, v := range n.Victims {
		result += " " + v.Name
	}
	if want := fmt.Sprintf("preemption: found a potential placement for pod on node %s, preempting %d victims", n.Node, len(n.Victims)); n.Message != want {
		t.Errorf("the message is %q", n.Message)
	}
	return result
}

// Each rule of the choice between nodes decides if those before do not.
func TestPreemptionChoosesNode(t *testing.T) {
	for name, tt := range map[string]struct {
		pods    []string
		budgets []*policyv1.PodDisruptionBudget
		want    string
	}{
		"fewest violated budgets": {[]string{
			"a a 4 0 0 critical", "b1 b 2 5 0", "b2 b 2 5 0",
		}, []*policyv1.PodDisruptionBudget{budget("x", "critical", 0)}, "b: b1 b2"},
		"one violated budget against two": {[]string{
			"a1 a 2 0 0 critical", "a2 a 2 0 0 critical", "b b 4 5 0 critical",
		}, []*policyv1.PodDisruptionBudget{budget("x", "critical", 0)}, "b: b"},
		"lowest highest priority": {[]string{
			"a1 a 2 5 9", "a2 a 2 1 9", "b1 b 2 4 0", "b2 b 2 4 0",
		}, nil, "b: b1 b2"},
		"lowest sum of priorities": {[]string{
			"a1 a 2 5 9", "a2 a 2 4 9", "b1 b 2 5 0", "b2 b 2 3 0",
		}, nil, "b: b1 b2"},
		"fewer of negative priority": {[]string{
			"a1 a 2 -5 9", "a2 a 2 -5 9", "b b 4 -5 0",
		}, nil, "b: b"},
		"fewest victims": {[]string{ // the sums are equal: 3 × 2³¹ - 2³¹ = 2 × 2³¹
			"a1 a 2 0 9", "a2 a 1 -1073741824 9", "a3 a 1 -1073741824 9", "b1 b 2 0 0", "b2 b 2 0 0",
		}, nil, "b: b1 b2"},
		"latest start of the highest priority": {[]string{
			"a1 a 2 5 1", "a2 a 2 5 9", "a3 a 2 1 9", "b1 b 2 5 2", "b2 b 2 5 2", "b3 b 2 1 0",
		}, nil, "b: b1 b2 b3"},
		"not started counts as now": {[]string{"a a 4 0 9", "b b 4 0 -"}, nil, "b: b"},
	} {
		t.Run(name, func(t *testing.T) {
			var pods []*corev1.Pod
			size := map[string]int64{}
			for _, description := range tt.pods {
				p := running(t, description)
				pods = append(pods, p)
				size[p.Spec.NodeName] += p.Spec.Containers[0].Resources.Requests.Cpu().Value()
			}
			for i := range uint64(4) { // whichever node is looked at first
				preemptor := running(t, fmt.Sprintf("vip%d a %d 10 0", i, size["a"]))
				preemptor.Spec.NodeName = ""
				if size["a"] != size["b"] {
					t.Fatal("the nodes differ")
				}
				nodes := []*corev1.Node{
					node("a", "cpu", fmt.Sprint(size["a"]), "pods", "9"), node("b", "cpu", fmt.Sprint(size["a"]), "pods", "9"),
				}
				if diff := cmp.Diff(tt.want, preempt(t, plugins.DefaultPreemption{Budgets: following(t, tt.budgets...)}, preemptor, nodes, pods)); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

// Whether a pod may preempt others is up to its policy.
func TestPreemptionPolicy(t *testing.T) {
	for policy, want := range map[corev1.PreemptionPolicy]string{
		"": "n: low", corev1.PreemptLowerPriority: "n: low", corev1.PreemptNever: "preemption: not eligible due to preemptionPolicy=Never.",
	} {
		vip := running(t, "vip n 2 10 0")
		if vip.Spec.NodeName = ""; policy != "" {
			vip.Spec.PreemptionPolicy = &policy
		}
		got := preempt(t, plugins.DefaultPreemption{}, vip, []*corev1.Node{node("n", "cpu", "2", "pods", "9")}, []*corev1.Pod{running(t, "low n 2 0 0")})
		if got != want {
			t.Errorf("%q: %s", policy, got)
		}
	}
}

// Of the pods on a node, as many as possible are spared, the most important first, and before them those whose budget
// does not allow their removal.
func TestPreemptionSparesPods(t *testing.T) {
	for name, tt := range map[string]struct {
		cpu     string
		pods    []string
		budgets []*policyv1.PodDisruptionBudget
		want    string
	}{
		"the least important goes":            {"1", []string{"p1 n 1 3 0", "p2 n 1 1 0", "p3 n 2 2 0"}, nil, "n: p2"},
		"the youngest goes":                   {"1", []string{"p1 n 1 1 5", "p2 n 1 1 9", "p3 n 2 1 7"}, nil, "n: p2"},
		"those not started are young":         {"1", []string{"p1 n 1 1 -", "p2 n 1 1 9", "p3 n 2 1 7"}, nil, "n: p1"},
		"and of these the last":               {"1", []string{"p1 n 1 1 -", "p2 n 1 1 -", "p3 n 2 1 7"}, nil, "n: p2"},
		"one of a higher priority if it must": {"2", []string{"p1 n 2 3 0", "p2 n 1 1 0", "p3 n 1 1 0"}, nil, "n: p2 p3"},
		"the large one goes":                  {"3", []string{"p1 n 3 3 0", "p2 n 1 1 0"}, nil, "n: p1"},
		"all":                                 {"4", []string{"p1 n 1 1 0", "p2 n 1 3 0", "p3 n 2 2 0"}, nil, "n: p2 p3 p1"},
		"none of its own priority":            {"2", []string{"p1 n 2 10 0", "p2 n 1 1 0", "p3 n 1 1 0"}, nil, "n: p2 p3"},
		"a budget spares":                     {"1", []string{"p1 n 2 3 0", "p2 n 2 1 0 x"}, []*policyv1.PodDisruptionBudget{budget("x", "x", 0)}, "n: p1"},
		"a budget with room does not":         {"1", []string{"p1 n 2 3 0", "p2 n 2 1 0 x"}, []*policyv1.PodDisruptionBudget{budget("x", "x", 1)}, "n: p2"},
		"nor for the disrupted":               {"1", []string{"p1 n 2 3 0", "p2 n 2 1 0 x"}, []*policyv1.PodDisruptionBudget{budget("x", "x", 0, "p2")}, "n: p2"},
		"the budget's first are free":         {"1", []string{"p1 n 2 3 0 x", "p2 n 2 1 0 x"}, []*policyv1.PodDisruptionBudget{budget("x", "x", 1)}, "n: p1"},
		"one of two budgets":                  {"1", []string{"p1 n 2 3 0", "p2 n 2 1 0 x y"}, []*policyv1.PodDisruptionBudget{budget("a", "x", 5), budget("b", "y", 0)}, "n: p1"},
		"violated at last, and sorted":        {"3", []string{"p1 n 1 1 0 x", "p2 n 3 3 0"}, []*policyv1.PodDisruptionBudget{budget("x", "x", 0)}, "n: p2"},
		"sorted together":                     {"4", []string{"p1 n 1 1 0 x", "p2 n 3 3 0"}, []*policyv1.PodDisruptionBudget{budget("x", "x", 0)}, "n: p2 p1"},
	} {
		t.Run(name, func(t *testing.T) {
			var pods []*corev1.Pod
			for _, description := range tt.pods {
				pods = append(pods, running(t, description))
			}
			preemptor := running(t, "vip n "+tt.cpu+" 10 0")
			preemptor.Spec.NodeName = ""
			p := plugins.DefaultPreemption{Budgets: following(t, tt.budgets...)}
			if diff := cmp.Diff(tt.want, preempt(t, p, preemptor, []*corev1.Node{node("n", "cpu", "4", "pods", "9")}, pods)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Pods may be removed for what they have beside resources, but not for what no removal changes.
func TestPreemptionHelps(t *testing.T) {
	ports := func(p *corev1.Pod, port int32) *corev1.Pod {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: port, ContainerPort: 1}}
		return p
	}
	low := ports(running(t, "low n 1 0 0"), 80)
	vip := ports(running(t, "vip n 1 10 0"), 80)
	vip.Spec.NodeName = ""
	n := node("n", "cpu", "4", "pods", "9")
	if got := preempt(t, plugins.DefaultPreemption{}, vip, []*corev1.Node{n}, []*corev1.Pod{low, running(t, "other n 1 0 0")}); got != "n: low" {
		t.Error(got)
	}
	gone := n.DeepCopy()
	gone.Spec.Unschedulable = true
	if got := preempt(t, plugins.DefaultPreemption{}, vip, []*corev1.Node{gone}, []*corev1.Pod{low}); got != "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling." {
		t.Error(got)
	}
}

// Predicates that fail while nodes are examined fail the preemption only if no other node helps.
func TestPreemptionWithFailures(t *testing.T) {
	failing := func(names ...string) scheduler.Enabled {
		return scheduler.Enabled{Plugin: scheduler.PredicateFunc("Broken", func(_ *corev1.Pod, n *scheduler.NodeInfo) *scheduler.Refusal {
			if len(n.Pods) > 0 {
				return scheduler.Refuse("node(s) were not empty")
			}
			if strings.Contains(strings.Join(names, " "), n.Name) {
				return &scheduler.Refusal{Err: errors.New(n.Name + " is broken")}
			}
			return nil
		})}
	}
	nodes := []*corev1.Node{node("a", "cpu", "4", "pods", "9"), node("b", "cpu", "4", "pods", "9")}
	pods := []*corev1.Pod{running(t, "low1 a 1 0 0"), running(t, "low2 b 1 0 0")}
	vip := running(t, "vip a 1 10 0")
	vip.Spec.NodeName = ""
	if got := preempt(t, plugins.DefaultPreemption{}, vip, nodes, pods, failing("a")); got != "b: low2" {
		t.Error(got)
	}
	got := preempt(t, plugins.DefaultPreemption{}, vip, nodes[:1], pods[:1], failing("a"))
	if got != `preemption: running "Broken" filter plugin: a is broken` {
		t.Error(got)
	}
	// Upstream puts the failures of several nodes in brackets.
	got = preempt(t, plugins.DefaultPreemption{}, vip, nodes, pods, failing("a", "b"))
	if !strings.HasPrefix(got, `preemption: [running "Broken" filter plugin: `) {
		t.Error(got)
	}
}

// A pod whose nominated node has pods that terminate by preemption waits for them.
func TestPreemptionIsNotRepeated(t *testing.T) {
	going := func(change func(*corev1.Pod)) *corev1.Pod {
		p := running(t, "low a 4 0 0")
		p.DeletionTimestamp = &metav1.Time{}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler}}
		change(p)
		return p
	}
	vip := running(t, "vip a 4 10 0")
	vip.Spec.NodeName, vip.Status.NominatedNodeName = "", "a"
	const waits = "preemption: not eligible due to a terminating pod on the nominated node."
	for name, tt := range map[string]struct {
		low  *corev1.Pod
		edit func(*corev1.Node)
		want string
	}{
		"waits":            {going(func(*corev1.Pod) {}), nil, waits},
		"still runs":       {going(func(p *corev1.Pod) { p.DeletionTimestamp = nil }), nil, "b: other"},
		"deleted by users": {going(func(p *corev1.Pod) { p.Status.Conditions[0].Reason = "EvictionByEvictionAPI" }), nil, "b: other"},
		"not disrupted":    {going(func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }), nil, "b: other"},
		"no condition":     {going(func(p *corev1.Pod) { p.Status.Conditions = nil }), nil, "b: other"},
		"as important":     {going(func(p *corev1.Pod) { p.Spec.Priority = ptr.To[int32](10) }), nil, "b: other"},
		"unschedulable":    {going(func(*corev1.Pod) {}), func(n *corev1.Node) { n.Spec.Unschedulable = true }, "b: other"},
		"no such node":     {going(func(*corev1.Pod) {}), func(n *corev1.Node) { n.Name = "c" }, "b: other"},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := []*corev1.Node{node("a", "cpu", "4", "pods", "9"), node("b", "cpu", "4", "pods", "9")}
			if tt.edit != nil {
				tt.edit(nodes[0])
			}
			pods := []*corev1.Pod{tt.low, running(t, "other b 4 -1 0")}
			if diff := cmp.Diff(tt.want, preempt(t, plugins.DefaultPreemption{}, vip, nodes, pods)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The search ends with enough candidates, but not before one of them violates no budget.
func TestPreemptionCandidates(t *testing.T) {
	var nodes []*corev1.Node
	var pods []*corev1.Pod
	for i := range 1050 {
		name := fmt.Sprintf("n%03d", i)
		nodes = append(nodes, node(name, "cpu", "4", "pods", "9"))
		label := "x"
		if i == 7 {
			label = ""
		}
		pods = append(pods, running(t, fmt.Sprintf("p%03d %s 4 %d 0 %s", i, name, i, label)))
	}
	asked := 0
	count := scheduler.Enabled{Plugin: scheduler.PredicateFunc("Counts", func(_ *corev1.Pod, n *scheduler.NodeInfo) *scheduler.Refusal {
		if len(n.Pods) == 0 {
			asked++ // once for each node without its pods
		}
		return nil
	})}
	vip := running(t, "vip n 4 1000 0")
	vip.Spec.NodeName = ""
	for name, tt := range map[string]struct {
		candidates plugins.Candidates
		nodes      int
		allowed    int32
		want       int
	}{
		"at least 100":      {plugins.Candidates{}, 250, 1, 100},
		"all of fewer":      {plugins.Candidates{}, 60, 1, 60},
		"a tenth of many":   {plugins.Candidates{}, 1050, 1, 105},
		"a percentage":      {plugins.Candidates{Percentage: 50, Absolute: 1}, 250, 1, 125},
		"a percentage only": {plugins.Candidates{Percentage: 10}, 250, 1, 25},
		"a number":          {plugins.Candidates{Absolute: 30}, 250, 1, 30},
	} {
		t.Run(name, func(t *testing.T) {
			asked = 0
			p := plugins.DefaultPreemption{Candidates: tt.candidates, Budgets: following(t, budget("x", "x", tt.allowed))}
			got := preempt(t, p, vip, nodes[:tt.nodes], pods[:tt.nodes], count)
			if asked != tt.want {
				t.Errorf("%d nodes considered, want %d", asked, tt.want)
			}
			if tt.want == tt.nodes && got != "n000: p000" {
				t.Error(got)
			}
		})
	}
	// All but one violate the budget: it is found, wherever the search begins, and ends it.
	nodes, pods, asked = nodes[:250], pods[:250], 0
	for i := range 10 {
		vip.Name = fmt.Sprint("vip", i)
		p := plugins.DefaultPreemption{Candidates: plugins.Candidates{Absolute: 1}, Budgets: following(t, budget("x", "x", 0))}
		if got := preempt(t, p, vip, nodes, pods, count); got != "n007: p007" {
			t.Error(got)
		}
	}
	if asked >= 9*len(nodes) {
		t.Errorf("%d nodes considered for ten pods", asked)
	}
	// Different pods begin at different nodes, each pod always at the same.
	first := map[string]bool{}
	for i := range 10 {
		vip.Name = fmt.Sprint("vip", i)
		p := plugins.DefaultPreemption{Candidates: plugins.Candidates{Absolute: 1}}
		got := preempt(t, p, vip, nodes, pods)
		if again := preempt(t, p, vip, nodes, pods); again != got {
			t.Errorf("%s, then %s", got, again)
		}
		first[got] = true
	}
	if len(first) < 5 {
		t.Errorf("the search begins at %v", first)
	}
}
