package plugins_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/plugins"
)

// amounts returns a resource list of CPU and memory.
func amounts(cpu, memory string) corev1.ResourceList {
	l := corev1.ResourceList{}
	if cpu != "" {
		l[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		l[corev1.ResourceMemory] = resource.MustParse(memory)
	}
	return l
}

// sized returns a node with an amount of cpu (in CPUs) and memory (in bytes).
func sized(cpu, memory string) *corev1.Node {
	return &corev1.Node{Status: corev1.NodeStatus{Allocatable: amounts(cpu, memory)}}
}

// asking returns a pod with one container per pair of a CPU and a memory request.
func asking(requests ...string) *corev1.Pod {
	p := &corev1.Pod{}
	for i := 0; i < len(requests); i += 2 {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{
			Resources: corev1.ResourceRequirements{Requests: amounts(requests[i], requests[i+1])},
		})
	}
	return p
}

// scores returns the scores of a profile with one priority, by way of a Decision; nil means that the priority
// skips the pod.
func scores(t *testing.T, p scheduler.Priority, pod *corev1.Pod, nodes []*corev1.Node, on [][]*corev1.Pod) []int64 {
	t.Helper()
	var bound []*corev1.Pod
	for i, n := range nodes {
		n.Name = fmt.Sprintf("node%d", i+1)
		if i >= len(on) {
			continue
		}
		for j, p := range on[i] {
			p.Name = fmt.Sprintf("%s-%d", n.Name, j)
			p.UID = types.UID(p.Name)
			p.Spec.NodeName = n.Name
			bound = append(bound, p)
		}
	}
	profile := scheduler.Profile{Plugins: []scheduler.Enabled{{Plugin: p, Weight: 1, PriorityOnly: true}}}
	d := profile.Schedule(pod, scheduler.NewSnapshot(nodes, bound))
	if d.Err != nil {
		t.Fatal(d.Err)
	}
	var got []int64
	for _, v := range d.Verdicts {
		if v.Scores[0].Skipped {
			return nil
		}
		got = append(got, v.Scores[0].Normalized)
	}
	return got
}

// The numbers in the comments are those of upstream's own tests.
func TestScoreNodeResourcesFit(t *testing.T) {
	tests := map[string]struct {
		pod   *corev1.Pod
		nodes []*corev1.Node
		on    [][]*corev1.Pod
		want  []int64
	}{
		"empty nodes of different size": { // (25+50)/2, (50+50)/2
			asking("1", "2000", "2", "3000"), []*corev1.Node{sized("4", "10000"), sized("6", "10000")}, nil,
			[]int64{37, 50},
		},
		"nodes in use": { // (40+75)/2, (40+50)/2
			asking("1", "2000", "2", "3000"), []*corev1.Node{sized("10", "20000"), sized("10", "20000")},
			[][]*corev1.Pod{{asking("3", "0")}, {asking("3", "5000")}},
			[]int64{57, 45},
		},
		"too much": { // (0+100)/2, (0+50)/2
			asking("3", "0"), []*corev1.Node{sized("4", "10000"), sized("4", "10000")},
			[][]*corev1.Pod{{asking("3", "0")}, {asking("3", "5000")}},
			[]int64{50, 25},
		},
		"no containers": { // (40+100)/2, (40+75)/2
			asking(), []*corev1.Node{sized("10", "20000"), sized("10", "20000")},
			[][]*corev1.Pod{{asking("3", "0"), asking("3", "0")}, {asking("3", "0"), asking("3", "5000")}},
			[]int64{70, 57},
		},
		"a container without requests counts 100m and 200Mi": { // (90+50)/2, and on top of two such: (70-rounded...)
			asking("", ""), []*corev1.Node{sized("1", "400Mi"), sized("1", "800Mi")},
			[][]*corev1.Pod{nil, {asking("", "", "", "")}},
			[]int64{70, 47}, // (70+25)/2
		},
		"nothing allocatable": {
			asking(), []*corev1.Node{sized("", ""), sized("", "")}, nil, []int64{0, 0},
		},
		"only CPU allocatable": {
			asking("1", ""), []*corev1.Node{sized("4", ""), sized("2", "")}, nil, []int64{75, 50},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, scores(t, plugins.NodeResourcesFit{}, tt.pod, tt.nodes, tt.on)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestScoreNodeResourcesFitMost(t *testing.T) {
	tests := map[string]struct {
		pod   *corev1.Pod
		nodes []*corev1.Node
		on    [][]*corev1.Pod
		want  []int64
	}{
		"empty nodes of different size": { // (75+50)/2, (50+50)/2
			asking("1", "2000", "2", "3000"), []*corev1.Node{sized("4", "10000"), sized("6", "10000")}, nil,
			[]int64{62, 50},
		},
		"nodes in use": { // (60+25)/2, (60+50)/2
			asking("1", "2000", "2", "3000"), []*corev1.Node{sized("10", "20000"), sized("10", "20000")},
			[][]*corev1.Pod{{asking("3", "0")}, {asking("3", "5000")}},
			[]int64{42, 55},
		},
		"full": { // (100+90)/2, (50+100)/2
			asking("2", "4000", "3", "5000"), []*corev1.Node{sized("5", "10000"), sized("10", "9000")}, nil,
			[]int64{95, 75},
		},
		"too much counts as full": {
			asking("9", "5000"), []*corev1.Node{sized("4", "10000"), sized("4", "")}, nil, []int64{75, 100},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, scores(t, plugins.NodeResourcesFit{Scoring: plugins.Scoring{Strategy: plugins.MostAllocated}}, tt.pod, tt.nodes, tt.on)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestScoreNodeResourcesFitLeavesOutPodLevel(t *testing.T) {
	p := asking("1", "1000")
	p.Spec.Resources = &corev1.ResourceRequirements{Requests: amounts("3", "3000")}
	got := scores(t, plugins.NodeResourcesFit{}, p, []*corev1.Node{sized("4", "4000"), sized("2", "2000")}, nil)
	if diff := cmp.Diff([]int64{75, 50}, got); diff != "" {
		t.Error(diff)
	}
}

func TestScoreNodeResourcesBalancedAllocation(t *testing.T) {
	tests := map[string]struct {
		pod   *corev1.Pod
		nodes []*corev1.Node
		on    [][]*corev1.Pod
		want  []int64
	}{
		"no requests": {asking("", ""), []*corev1.Node{sized("4", "1000"), sized("4", "1000")}, nil, nil},
		"different memory in use": { // 85 -> 82, 97 -> 95
			asking("1", "2000", "2", "3000"), []*corev1.Node{sized("10", "20000"), sized("10", "20000")},
			[][]*corev1.Pod{{asking("1", "", "2", "")}, {asking("1", "2000", "2", "3000")}},
			[]int64{73, 74},
		},
		"different size": { // 85 -> 82, 90 -> 80
			asking("1", "2000", "2", "3000"), []*corev1.Node{sized("10", "20000"), sized("10", "50000")},
			[][]*corev1.Pod{{asking("1", "", "2", "")}, {asking("1", "2000", "2", "3000")}},
			[]int64{73, 70},
		},
		"best and worst": { // 50 -> 100, 100 -> 50
			asking("", "2000", "", "3000"), []*corev1.Node{sized("3", "5000"), sized("3", "5000")},
			[][]*corev1.Pod{{asking("1", "", "2", "")}},
			[]int64{100, 50},
		},
		"full": { // 75 -> 50, 100 -> 75
			asking("1", "", "2", ""), []*corev1.Node{sized("6", "10000"), sized("6", "10000")},
			[][]*corev1.Pod{{asking("1", "", "2", "")}, {asking("1", "2000", "2", "3000")}},
			[]int64{62, 62},
		},
		"memory not reported": {
			asking("1", "1000"), []*corev1.Node{sized("4", ""), sized("4", "")}, nil, []int64{75, 75},
		},
		"CPU not reported": {
			asking("1", "1000"), []*corev1.Node{sized("", "4000"), sized("", "4000")}, nil, []int64{75, 75},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := scores(t, plugins.NodeResourcesBalancedAllocation{}, tt.pod, tt.nodes, tt.on)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func tainted(taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{Spec: corev1.NodeSpec{Taints: taints}}
}

func TestScoreTaintToleration(t *testing.T) {
	soft := func(key, value string) corev1.Taint {
		return corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffectPreferNoSchedule}
	}
	tolerant := func(tolerations ...corev1.Toleration) *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{Tolerations: tolerations}}
	}
	tests := map[string]struct {
		pod   *corev1.Pod
		nodes []*corev1.Node
		want  []int64
	}{
		"no taints": {tolerant(), []*corev1.Node{tainted(), tainted()}, []int64{100, 100}},
		"tolerated or not": {
			tolerant(corev1.Toleration{Key: "foo", Operator: corev1.TolerationOpEqual, Value: "bar", Effect: corev1.TaintEffectPreferNoSchedule}),
			[]*corev1.Node{tainted(soft("foo", "bar")), tainted(soft("foo", "blah"))},
			[]int64{100, 0},
		},
		"the number counts": {
			tolerant(),
			[]*corev1.Node{tainted(), tainted(soft("a", "")), tainted(soft("a", ""), soft("b", ""), soft("c", ""))},
			[]int64{100, 67, 0},
		},
		"a toleration without effect counts": {
			tolerant(corev1.Toleration{Key: "a", Operator: corev1.TolerationOpExists}),
			[]*corev1.Node{tainted(soft("a", "x")), tainted(soft("b", "x"))},
			[]int64{100, 0},
		},
		"a toleration of another effect does not": {
			tolerant(corev1.Toleration{Key: "a", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}),
			[]*corev1.Node{tainted(soft("a", "x")), tainted()},
			[]int64{0, 100},
		},
		"comparing operators do not": {
			tolerant(corev1.Toleration{Key: "a", Operator: corev1.TolerationOpGt, Value: "1"}),
			[]*corev1.Node{tainted(soft("a", "5")), tainted()},
			[]int64{0, 100},
		},
		"hard taints do not count": {
			tolerant(),
			[]*corev1.Node{tainted(corev1.Taint{Key: "a", Effect: corev1.TaintEffectNoSchedule}), tainted(soft("a", ""))},
			[]int64{100, 0},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, scores(t, plugins.TaintToleration{}, tt.pod, tt.nodes, nil)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func preferring(terms ...corev1.PreferredSchedulingTerm) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: terms,
	}}}}
}

func prefer(weight int32, key, value string) corev1.PreferredSchedulingTerm {
	return corev1.PreferredSchedulingTerm{Weight: weight, Preference: corev1.NodeSelectorTerm{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}},
	}}
}

func labelled(kv ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}}}
	for i := 0; i < len(kv); i += 2 {
		n.Labels[kv[i]] = kv[i+1]
	}
	return n
}

func TestScoreNodeAffinity(t *testing.T) {
	nodes := func() []*corev1.Node {
		return []*corev1.Node{labelled("foo", "bar"), labelled("key", "value"), labelled("foo", "bar", "key", "value"), labelled()}
	}
	tests := map[string]struct {
		pod  *corev1.Pod
		want []int64
	}{
		"no preference":  {&corev1.Pod{}, nil},
		"one term":       {preferring(prefer(2, "foo", "bar")), []int64{100, 0, 100, 0}},
		"weights add up": {preferring(prefer(2, "foo", "bar"), prefer(4, "key", "value")), []int64{33, 66, 100, 0}},
		"none matches":   {preferring(prefer(2, "foo", "baz")), []int64{0, 0, 0, 0}},
		"an empty term":  {preferring(corev1.PreferredSchedulingTerm{Weight: 5}), []int64{0, 0, 0, 0}},
		"weight 0":       {preferring(prefer(0, "foo", "bar")), []int64{0, 0, 0, 0}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, scores(t, plugins.NodeAffinity{}, tt.pod, nodes(), nil)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestScoreInvalidNodeAffinity(t *testing.T) {
	bad := prefer(1, "foo", "bar")
	bad.Preference.MatchExpressions[0].Operator = "Near"
	profile := scheduler.Profile{Plugins: plugins.Default()}
	d := profile.Schedule(preferring(bad), scheduler.NewSnapshot([]*corev1.Node{node("a", "pods", "9"), node("b", "pods", "9")}, nil))
	if d.Node != "" || d.Err == nil || !strings.HasPrefix(d.Err.Error(), `running PreScore plugin "NodeAffinity": [0].matchExpressions[0].operator: Unsupported value: "Near"`) {
		t.Errorf("went to %q, error %v", d.Node, d.Err)
	}
}

func TestScoreImageLocality(t *testing.T) {
	const mb = 1 << 20
	has := func(sizes ...int64) *corev1.Node {
		n := &corev1.Node{}
		for _, size := range sizes {
			name := fmt.Sprintf("gcr.io/%d", size)
			n.Status.Images = append(n.Status.Images, corev1.ContainerImage{
				Names: []string{name + ":latest", name + ":v1"}, SizeBytes: size * mb,
			})
		}
		return n
	}
	of := func(images ...string) *corev1.Pod {
		p := &corev1.Pod{}
		for _, image := range images {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Image: "gcr.io/" + image})
		}
		return p
	}
	volume := of("30")
	volume.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "gcr.io/300"}}}}
	initial := of("30")
	initial.Spec.InitContainers = []corev1.Container{{Image: "gcr.io/300"}}
	tests := map[string]struct {
		pod   *corev1.Pod
		nodes []*corev1.Node
		want  []int64
	}{
		"the larger image":     {of("40", "250"), []*corev1.Node{has(40, 300, 2000), has(250, 10)}, []int64{0, 5}},
		"two images":           {of("40", "300"), []*corev1.Node{has(40, 300, 2000), has(250, 10)}, []int64{7, 0}},
		"at most":              {of("4000", "10"), []*corev1.Node{has(4000, 30), has(250, 10)}, []int64{100, 0}},
		"a share of the nodes": {of("4000", "10"), []*corev1.Node{has(4000, 30), has(250, 10), has()}, []int64{66, 0, 0}},
		"three images":         {of("300", "600", "900"), []*corev1.Node{has(600, 40, 900), has(300, 600, 900), has()}, []int64{32, 36, 0}},
		"small images":         {of("30", "40"), []*corev1.Node{has(20, 30, 40), has(4000, 30)}, []int64{1, 0}},
		"an image volume":      {volume, []*corev1.Node{has(300, 600, 900), has(4000, 30)}, []int64{6, 0}},
		"an init container":    {initial, []*corev1.Node{has(40, 300, 2000), has(20, 30, 40)}, []int64{6, 0}},
		"with a tag":           {of("300:v1"), []*corev1.Node{has(300), has()}, []int64{12, 0}},
		"by digest":            {of("x@sha256:0"), []*corev1.Node{has(300), has()}, nil},
		"nowhere":              {of("1"), []*corev1.Node{has(300), has()}, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, scores(t, plugins.ImageLocality{}, tt.pod, tt.nodes, nil)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDefaultWeights(t *testing.T) {
	got := map[string]int64{}
	for _, w := range plugins.Default() {
		if w.Weight != 0 {
			got[w.Plugin.Name()] = w.Weight
		}
	}
	want := map[string]int64{
		"TaintToleration": 3, "NodeAffinity": 2, "NodeResourcesFit": 1, "VolumeBinding": 1, "DynamicResources": 2, "NodeResourcesBalancedAllocation": 1, "InterPodAffinity": 2, "PodTopologySpread": 2, "ImageLocality": 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Score by itself equals the profile's score if nodes do not depend on each other.
func TestScoreAlone(t *testing.T) {
	prefers := preferring(prefer(2, "foo", "bar"), prefer(4, "key", "value"))
	broken := preferring(prefer(1, "foo", "bar"))
	broken.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].Preference.MatchExpressions[0].Operator = "Near"
	bare, noImages := &corev1.Pod{Spec: corev1.PodSpec{Affinity: &corev1.Affinity{}}}, &corev1.Pod{}
	image := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: "nginx"}}}}
	with := &corev1.Node{Status: corev1.NodeStatus{Images: []corev1.ContainerImage{{Names: []string{"nginx:latest"}, SizeBytes: 1000 << 20}}}}
	tests := map[string]struct {
		by   scheduler.Priority
		pod  *corev1.Pod
		node *corev1.Node
		want int64
	}{
		"one preferred":       {plugins.NodeAffinity{}, prefers, labelled("foo", "bar"), 2},
		"both preferred":      {plugins.NodeAffinity{}, prefers, labelled("foo", "bar", "key", "value"), 6},
		"no preference":       {plugins.NodeAffinity{}, &corev1.Pod{}, labelled("foo", "bar"), 0},
		"no node affinity":    {plugins.NodeAffinity{}, bare, labelled("foo", "bar"), 0},
		"a broken preference": {plugins.NodeAffinity{}, broken, labelled("foo", "bar"), 0},
		"requests nothing":    {plugins.NodeResourcesBalancedAllocation{}, asking("", ""), sized("4", "4000"), 0},
		"requests CPU":        {plugins.NodeResourcesBalancedAllocation{}, asking("2", ""), sized("4", "4000"), 62},
		"requests memory":     {plugins.NodeResourcesBalancedAllocation{}, asking("", "2000"), sized("4", "4000"), 62},
		"requests the same":   {plugins.NodeResourcesBalancedAllocation{}, asking("2", "2000"), sized("4", "4000"), 75},
		"no images":           {plugins.ImageLocality{}, noImages, with, 0},
		"an image":            {plugins.ImageLocality{}, image, with, 100},
		"an image elsewhere":  {plugins.ImageLocality{}, image, &corev1.Node{}, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tt.by.Score(tt.pod, scheduler.NewNodeInfo(tt.node)); got != tt.want {
				t.Errorf("scores %d", got)
			}
		})
	}
}

// A priority whose results are cached distinguishes pods that it scores differently.
func TestScoreSignaturesCoverReadFields(t *testing.T) {
	tolerant := &corev1.Pod{Spec: corev1.PodSpec{Tolerations: []corev1.Toleration{{Key: "a"}}}}
	for _, w := range plugins.Default() {
		local, ok := w.Plugin.(scheduler.Local)
		if !ok || w.Weight == 0 {
			continue
		}
		seen := map[string]bool{}
		for _, p := range []*corev1.Pod{{}, tolerant, preferring(prefer(1, "a", "b")), asking("1", "1")} {
			b, ok := local.Signature(nil, p)
			if !ok {
				t.Errorf("%s has no signature", w.Plugin.Name())
			}
			seen[string(b)] = true
		}
		if len(seen) != 2 {
			t.Errorf("%s has %d signatures", w.Plugin.Name(), len(seen))
		}
	}
}

// The balance of a node includes the resources allocated to a pod, if they exceed its present requests.
func TestScoreBalanceCountsAllocated(t *testing.T) {
	given := func(cpu string) *corev1.Pod {
		p := asking("1", "1000")
		p.Spec.Containers[0].Name = "c"
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c",
			AllocatedResources: amounts(cpu, "1000"), Resources: &corev1.ResourceRequirements{Requests: amounts(cpu, "1000")}}}
		return p
	}
	asWhole := asking("", "")
	asWhole.Spec.Resources = &corev1.ResourceRequirements{Requests: amounts("1", "1000")}
	asWhole.Status.AllocatedResources = amounts("3", "1000")
	asWhole.Status.Resources = &corev1.ResourceRequirements{Requests: amounts("3", "1000")}
	for name, tt := range map[string]struct {
		pod  *corev1.Pod
		want int64
	}{
		"as asked":   {given("1"), 75},
		"more":       {given("3"), 62},
		"as a whole": {asWhole, 62},
	} {
		if got := (plugins.NodeResourcesBalancedAllocation{}).Score(tt.pod, scheduler.NewNodeInfo(sized("4", "4000"))); got != tt.want {
			t.Errorf("%s: scores %d", name, got)
		}
	}
}
