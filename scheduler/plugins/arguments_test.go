package plugins_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/plugins"
	"github.com/keelson-dev/keelson/scheduler/schedulertest"
)

const gpu = corev1.ResourceName("example.com/gpu")

// with adds amounts to a node or a pod.
func withGPUs(list corev1.ResourceList, n string) corev1.ResourceList {
	list[gpu] = resource.MustParse(n)
	return list
}

func TestScoringStrategies(t *testing.T) {
	shape := plugins.Shape{{Utilization: 0, Score: 0}, {Utilization: 50, Score: 100}, {Utilization: 100, Score: 20}}
	pod := asking("1", "2Gi")
	gpus := asking("1", "2Gi")
	gpus.Spec.Containers[0].Resources.Requests = withGPUs(gpus.Spec.Containers[0].Resources.Requests, "1")
	nodes := func() []*corev1.Node {
		all := []*corev1.Node{sized("4", "4Gi"), sized("2", "8Gi"), sized("4", "0")}
		withGPUs(all[0].Status.Allocatable, "4")
		return all
	}
	for name, c := range map[string]struct {
		scoring plugins.Scoring
		pod     *corev1.Pod
		want    []int64
	}{
		// Requested shares: CPU 25, 50, 25; memory 50, 25, -; GPUs 25, -, -.
		"least":                         {plugins.Scoring{}, pod, []int64{62, 62, 75}},
		"least, by name":                {plugins.Scoring{Strategy: plugins.LeastAllocated}, pod, []int64{62, 62, 75}},
		"most":                          {plugins.Scoring{Strategy: plugins.MostAllocated}, pod, []int64{37, 37, 25}},
		"weights":                       {plugins.Scoring{Strategy: plugins.MostAllocated, Resources: []plugins.WeightedResource{{Name: "cpu", Weight: 3}, {Name: "memory", Weight: 1}}}, pod, []int64{31, 43, 25}},
		"one resource":                  {plugins.Scoring{Strategy: plugins.MostAllocated, Resources: []plugins.WeightedResource{{Name: "memory", Weight: 2}}}, pod, []int64{50, 25, 0}},
		"ratio":                         {plugins.Scoring{Strategy: plugins.RequestedToCapacityRatio, Shape: shape}, pod, []int64{75, 75, 50}},
		"ratio without shape":           {plugins.Scoring{Strategy: plugins.RequestedToCapacityRatio}, pod, []int64{0, 0, 0}},
		"not requested, does not count": {plugins.Scoring{Strategy: plugins.MostAllocated, Resources: []plugins.WeightedResource{{Name: "cpu", Weight: 1}, {Name: gpu, Weight: 1}}}, pod, []int64{25, 50, 25}},
		"requested":                     {plugins.Scoring{Strategy: plugins.LeastAllocated, Resources: []plugins.WeightedResource{{Name: "cpu", Weight: 1}, {Name: gpu, Weight: 3}}}, gpus, []int64{75, 50, 75}},
	} {
		fit := plugins.NodeResourcesFit{Scoring: c.scoring}
		if diff := cmp.Diff(c.want, scores(t, fit, c.pod, nodes(), nil)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
		for i, n := range nodes() {
			if got := fit.Score(c.pod, scheduler.NewNodeInfo(n)); got != c.want[i] {
				t.Errorf("%s: Score %d of node %d, want %d", name, got, i, c.want[i])
			}
		}
		schedulertest.TestPriority(t, fit)
	}
}

// TestScoresOfZeroDoNotCount: as upstream, resources of score 0 are left out of the mean of RequestedToCapacityRatio, which is
// rounded to the nearest.
func TestScoresOfZeroDoNotCount(t *testing.T) {
	fit := plugins.NodeResourcesFit{Scoring: plugins.Scoring{
		Strategy: plugins.RequestedToCapacityRatio, Shape: plugins.Shape{{Utilization: 50, Score: 0}, {Utilization: 100, Score: 100}},
	}}
	got := scores(t, fit, asking("1", "3Gi"), []*corev1.Node{sized("4", "4Gi"), sized("1", "7Gi"), sized("1500m", "4Gi")}, nil)
	if diff := cmp.Diff([]int64{50, 100, 41}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestShape(t *testing.T) {
	shape := plugins.Shape{{Utilization: 10, Score: 20}, {Utilization: 50, Score: 100}, {Utilization: 100, Score: 0}}
	for utilization, want := range map[int64]int64{0: 20, 10: 20, 11: 22, 30: 60, 50: 100, 51: 98, 99: 2, 100: 0, 200: 0} {
		if got := shape.At(utilization); got != want {
			t.Errorf("at %d: %d, want %d", utilization, got, want)
		}
	}
	if got := (plugins.Shape{}).At(5); got != 0 {
		t.Errorf("no shape: %d", got)
	}
}

func TestBalanceOfOtherResources(t *testing.T) {
	gpus := asking("1", "1Gi")
	gpus.Spec.Containers[0].Resources.Requests = withGPUs(gpus.Spec.Containers[0].Resources.Requests, "3")
	node := func() *corev1.Node {
		n := sized("4", "4Gi")
		withGPUs(n.Status.Allocatable, "4")
		return n
	}
	for name, c := range map[string]struct {
		resources []corev1.ResourceName
		pod       *corev1.Pod
		want      []int64
	}{
		"the default": {nil, gpus, []int64{75}},
		// Shares of 25, 25 and 75 %: a deviation of 23.57 %, of 25 % for two.
		"three":                  {[]corev1.ResourceName{"cpu", "memory", gpu}, gpus, []int64{63}},
		"two":                    {[]corev1.ResourceName{"cpu", gpu}, gpus, []int64{62}},
		"one":                    {[]corev1.ResourceName{gpu}, gpus, []int64{75}},
		"none of what is asked":  {[]corev1.ResourceName{gpu}, asking("1", "1Gi"), nil},
		"one that is not asked":  {[]corev1.ResourceName{"cpu", gpu}, asking("1", "1Gi"), []int64{75}},
		"ephemeral, not offered": {[]corev1.ResourceName{"cpu", corev1.ResourceEphemeralStorage}, gpus, []int64{75}},
	} {
		b := plugins.NodeResourcesBalancedAllocation{Resources: c.resources}
		nodes := []*corev1.Node{node(), node()} // a single one is not scored
		got := scores(t, b, c.pod, nodes, nil)
		if got != nil {
			got = got[:1]
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
	schedulertest.TestPriority(t, plugins.NodeResourcesBalancedAllocation{Resources: []corev1.ResourceName{"cpu", gpu, "memory"}})
}

func TestAddedAffinity(t *testing.T) {
	term := func(key string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpExists}}}
	}
	added := plugins.NodeAffinity{Added: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution:  &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term("ours")}},
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 10, Preference: term("good")}},
	}}
	node := func(labels ...string) *corev1.Node {
		n := &corev1.Node{}
		n.Labels = map[string]string{}
		for _, l := range labels {
			n.Labels[l] = ""
		}
		return n
	}
	plain, choosy := &corev1.Pod{}, &corev1.Pod{}
	choosy.Spec.NodeSelector = map[string]string{"disk": ""}
	choosy.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 30, Preference: term("better")}},
	}}
	const enforced, own = "node(s) didn't match scheduler-enforced node affinity", "node(s) didn't match Pod's node affinity/selector"
	for _, c := range []struct {
		pod  *corev1.Pod
		node *corev1.Node
		want string
	}{
		{plain, node("ours"), ""}, {plain, node(), enforced}, {choosy, node("disk"), enforced}, {choosy, node("ours"), own}, {choosy, node("ours", "disk"), ""},
	} {
		profile := scheduler.Profile{Plugins: []scheduler.Enabled{{Plugin: added, Weight: 1}}}
		v := profile.Schedule(c.pod, scheduler.NewSnapshot([]*corev1.Node{c.node}, nil)).Verdicts[0]
		got := ""
		if v.Refusal != nil {
			got = v.Refusal.Error()
		}
		if direct := added.Check(c.pod, scheduler.NewNodeInfo(c.node)); got != c.want || v.Refusal != nil && !v.Refusal.Unresolvable || (direct == nil) != (got == "") {
			t.Errorf("%v on %v: %q, want %q", c.pod.Spec.NodeSelector, c.node.Labels, got, c.want)
		}
		if may := added.MayHelp(c.pod, scheduler.Event{Kind: scheduler.NodeAdded, Node: c.node}); may != (c.want == "") {
			t.Errorf("%v: a node with %v helps: %t", c.pod.Spec.NodeSelector, c.node.Labels, may)
		}
	}
	updated := scheduler.Event{Kind: scheduler.NodeUpdated, Change: scheduler.NodeLabelsChanged, OldNode: node("disk"), Node: node("ours", "disk")}
	if !added.MayHelp(choosy, updated) {
		t.Error("a node that comes to match what was added does not help")
	}
	if diff := cmp.Diff([]int64{0, 100}, scores(t, added, plain, []*corev1.Node{node("ours"), node("ours", "good")}, nil)); diff != "" {
		t.Errorf("a pod without preferences (-want +got)\n%s", diff)
	}
	got := scores(t, plugins.NodeAffinity{Added: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: added.Added.PreferredDuringSchedulingIgnoredDuringExecution}},
		choosy, []*corev1.Node{node("good"), node("better"), node("good", "better"), node()}, nil)
	if diff := cmp.Diff([]int64{25, 75, 100, 0}, got); diff != "" {
		t.Errorf("both (-want +got)\n%s", diff)
	}
	broken := plugins.NodeAffinity{Added: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "a", Operator: "Some"}}}},
	}}}
	if r := broken.Check(plain, scheduler.NewNodeInfo(node())); r == nil || r.Err == nil {
		t.Errorf("what cannot be parsed: %v", r)
	}
	if _, err := broken.Prepare(plain, nil); err == nil {
		t.Error("what cannot be parsed prepares")
	}
	schedulertest.TestPredicate(t, added)
	schedulertest.TestPriority(t, added)
}
