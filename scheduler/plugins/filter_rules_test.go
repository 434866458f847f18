package plugins_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/plugins"
)

func signatureOf(t *testing.T, p scheduler.Local, pod *corev1.Pod) string {
	t.Helper()
	b, ok := p.Signature([]byte("before"), pod)
	if !ok {
		t.Fatal("has no signature")
	}
	return string(b)
}

// The fields that a predicate reads are in its signature.
func TestSignaturesCoverReadFields(t *testing.T) {
	gates := func(names ...string) *corev1.Pod {
		return edit(pod(), func(s *corev1.PodSpec) {
			for _, name := range names {
				s.SchedulingGates = append(s.SchedulingGates, corev1.PodSchedulingGate{Name: name})
			}
		})
	}
	of := func(name string) *corev1.Pod { return edit(pod(), func(s *corev1.PodSpec) { s.NodeName = name }) }
	tests := map[string]struct {
		by   scheduler.Local
		pods []*corev1.Pod
	}{
		"gates":     {plugins.SchedulingGates{}, []*corev1.Pod{gates(), gates("a"), gates("b"), gates("a", "b")}},
		"node name": {plugins.NodeName{}, []*corev1.Pod{of(""), of("a"), of("b")}},
		"cordons":   {plugins.NodeUnschedulable{}, []*corev1.Pod{pod(), tolerating(corev1.Toleration{Key: "a"}), tolerating(corev1.Toleration{Key: "b"})}},
		"taints":    {plugins.TaintToleration{}, []*corev1.Pod{pod(), tolerating(corev1.Toleration{Key: "a"}), tolerating(corev1.Toleration{Key: "b"})}},
		"affinity":  {plugins.NodeAffinity{}, []*corev1.Pod{pod(), selecting(named("a")), selecting(named("b"))}},
		"features": {plugins.NodeDeclaredFeatures{}, []*corev1.Pod{
			pod(), edit(pod(), func(s *corev1.PodSpec) { s.HostNetwork, s.HostUsers = true, ptr.To(false) }),
			edit(pod(), func(s *corev1.PodSpec) {
				s.Containers[0].VolumeMounts = []corev1.VolumeMount{{BindMountOptions: []string{"noexec"}}}
			}),
		}},
		"requests": {plugins.NodeResourcesFit{}, []*corev1.Pod{pod(), pod("cpu", "1"), pod("cpu", "2"), pod("memory", "1")}},
		"ports": {plugins.NodePorts{}, []*corev1.Pod{
			ports(), ports(port("", "TCP", 1)), ports(port("", "TCP", 2)), ports(port("", "UDP", 1)), ports(port("10.0.0.1", "TCP", 1)),
			ports(port("", "TCP", 1), port("", "TCP", 2)), ports(port("", "TCP", 12)),
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for i, a := range tt.pods {
				for j, b := range tt.pods {
					if got := signatureOf(t, tt.by, a) == signatureOf(t, tt.by, b.DeepCopy()); got != (i == j) {
						t.Errorf("of %d and %d: %q and %q", i, j, signatureOf(t, tt.by, a), signatureOf(t, tt.by, b))
					}
				}
			}
		})
	}
}

// The results of Prepare, before any node is checked.
func TestPrepare(t *testing.T) {
	field := func(key string, operator corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: operator, Values: values}
	}
	fields := func(all ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchFields: all}
	}
	name, in := metav1.ObjectNameField, corev1.NodeSelectorOpIn
	tests := map[string]struct {
		by      scheduler.Preparer
		pod     *corev1.Pod
		skip    bool
		nodes   []string
		refusal *scheduler.Refusal
	}{
		"no gates":        {plugins.SchedulingGates{}, pod(), true, nil, nil},
		"no name":         {plugins.NodeName{}, pod(), true, nil, nil},
		"a name":          {plugins.NodeName{}, edit(pod(), func(s *corev1.PodSpec) { s.NodeName = "a" }), false, []string{"a"}, nil},
		"no ports":        {plugins.NodePorts{}, ports(), true, nil, nil},
		"ports":           {plugins.NodePorts{}, ports(port("", "TCP", 1)), false, nil, nil},
		"no affinity":     {plugins.NodeAffinity{}, pod(), true, nil, nil},
		"other affinity":  {plugins.NodeAffinity{}, edit(pod(), func(s *corev1.PodSpec) { s.Affinity = &corev1.Affinity{} }), true, nil, nil},
		"a selector":      {plugins.NodeAffinity{}, edit(pod(), func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"a": "b"} }), false, nil, nil},
		"labels":          {plugins.NodeAffinity{}, selecting(label("foo", "Exists")), false, nil, nil},
		"names":           {plugins.NodeAffinity{}, selecting(named("a", "b"), named("c")), false, []string{"a", "b", "c"}, nil},
		"names and label": {plugins.NodeAffinity{}, selecting(named("a"), label("foo", "Exists")), false, nil, nil},
		"names in two":    {plugins.NodeAffinity{}, selecting(fields(field(name, in, "a", "b"), field(name, in, "b", "c"))), false, []string{"b"}, nil},
		"not a name":      {plugins.NodeAffinity{}, selecting(fields(field(name, "NotIn", "a"))), false, nil, nil},
		"a name, not another": {
			plugins.NodeAffinity{},
			selecting(fields(field(name, "NotIn", "a"), field(name, in, "a", "b"))), false, []string{"a", "b"}, nil,
		},
		"another field": {plugins.NodeAffinity{}, selecting(fields(field("spec.x", in, "a"))), false, nil, nil},
		"names that conflict": {
			plugins.NodeAffinity{},
			selecting(fields(field(name, in, "a"), field(name, in, "b"))), false, []string{}, never("pod affinity terms conflict"),
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := tt.by.Prepare(tt.pod, nil)
			if err != nil || got.Skip != tt.skip {
				t.Errorf("skips %v, error %v", got.Skip, err)
			}
			if diff := cmp.Diff(tt.nodes, got.Nodes); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tt.refusal, got.Refusal); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A full or overfull node refuses no pod for a resource that the pod does not request, and a pod that fits on
// the empty node is not refused as unresolvable.
func TestNodeResourcesFitAtTheLimits(t *testing.T) {
	all := []string{"cpu", "4", "memory", "4", "ephemeral-storage", "4", "example.com/a", "4"}
	roomy := func(pods ...*corev1.Pod) *scheduler.NodeInfo {
		return scheduler.NewNodeInfo(node("n", append([]string{"pods", "2"}, all...)...), pods...)
	}
	over := pod("cpu", "5", "memory", "5", "ephemeral-storage", "5", "example.com/a", "5")
	tests := map[string]expect{
		"the last pod":                 {pod(), roomy(pod()), nil},
		"no request, full node":        {pod(), roomy(pod(all...)), nil},
		"no request, overfull node":    {pod(), roomy(over), nil},
		"zero requests, overfull node": {pod("cpu", "0", "memory", "0", "ephemeral-storage", "0", "example.com/a", "0"), roomy(over), nil},
		"everything, empty node":       {pod(all...), roomy(), nil},
		"nothing but standard, too":    {pod("cpu", "4"), roomy(pod("memory", "1")), nil},
		"used: cpu":                    {pod("cpu", "4"), roomy(pod("cpu", "1")), refused("Insufficient cpu")},
	}
	for _, name := range []string{"memory", "ephemeral-storage", "example.com/a"} {
		tests["used: "+name] = expect{pod(name, "4"), roomy(pod(name, "1")), refused("Insufficient " + name)}
		tests["more than allocatable: "+name] = expect{pod(name, "5"), roomy(), never("Insufficient " + name)}
		tests["the rest: "+name] = expect{pod(name, "3"), roomy(pod(name, "1")), nil}
	}
	check(t, plugins.NodeResourcesFit{}, tests)
	check(t, plugins.NodeResourcesFit{Ignored: []string{"hugepages-1Gi", "kubernetes.io/x"}}, map[string]expect{
		"not extended":   {pod("hugepages-1Gi", "1"), roomy(), never("Insufficient hugepages-1Gi")},
		"of Kubernetes":  {pod("kubernetes.io/x", "1"), roomy(), never("Insufficient kubernetes.io/x")},
		"several, named": {pod("kubernetes.io/x", "1", "hugepages-1Gi", "1"), roomy(), never("Insufficient hugepages-1Gi", "Insufficient kubernetes.io/x")},
	})
}

// Several changes of a resource of a node, or of a pod on it, for which a pod waits.
func TestHintsByResource(t *testing.T) {
	of := func(pairs ...string) *corev1.Node { return node("n", append([]string{"pods", "10"}, pairs...)...) }
	for _, name := range []string{"cpu", "memory", "ephemeral-storage", "example.com/a"} {
		small, large, larger := of(name, "1"), of(name, "2"), of(name, "3")
		other := of(name, "2", "hugepages-2Mi", "5")
		shrunk := func(from, to *corev1.Pod) scheduler.Event {
			return scheduler.Event{Kind: scheduler.AssignedPodUpdated, Change: scheduler.PodChange(from, to), OldPod: from, Pod: to}
		}
		grown := func(from, to *corev1.Node) scheduler.Event {
			return scheduler.Event{Kind: scheduler.NodeUpdated, Change: scheduler.NodeChange(from, to), OldNode: from, Node: to}
		}
		tests := map[string]struct {
			pod   *corev1.Pod
			event scheduler.Event
			want  bool
		}{
			"a node grew enough":               {pod(name, "2"), grown(small, large), true},
			"a node grew too little":           {pod(name, "3"), grown(small, large), false},
			"a node grew more than was needed": {pod(name, "1"), grown(large, larger), true},
			"a node grew in something else":    {pod(name, "1"), grown(large, other), false},
			"a node grew in an unwanted one":   {pod("pods", "0"), grown(small, large), false},
			"a pod shrank":                     {pod(name, "1"), shrunk(pod(name, "2"), pod(name, "1")), true},
			"a pod grew":                       {pod(name, "1"), shrunk(pod(name, "1"), pod(name, "2")), false},
			"a pod shrank in something else":   {pod(name, "1"), shrunk(pod("hugepages-2Mi", "2", name, "1"), pod("hugepages-2Mi", "1", name, "1")), false},
			"a pod shrank in an unwanted one":  {pod(), shrunk(pod(name, "2"), pod(name, "1")), false},
		}
		for title, tt := range tests {
			t.Run(name+": "+title, func(t *testing.T) {
				if got := (plugins.NodeResourcesFit{}).MayHelp(tt.pod, tt.event); got != tt.want {
					t.Errorf("MayHelp = %v", got)
				}
			})
		}
	}
}

// The predicates' own answers to events that change nothing for them, or that they did not register for.
func TestHintsWithoutChange(t *testing.T) {
	cordoned, tainted, labelled := node("n"), node("n", "cpu", "4", "pods", "9"), node("n", "cpu", "4", "pods", "9")
	cordoned.Spec.Unschedulable = true
	tainted.Spec.Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoSchedule}}
	labelled.Labels = map[string]string{"foo": "bar"}
	updated := func(old, n *corev1.Node) scheduler.Event {
		return scheduler.Event{Kind: scheduler.NodeUpdated, Change: scheduler.NodeChange(old, n), OldNode: old, Node: n}
	}
	added := func(n *corev1.Node) scheduler.Event { return scheduler.Event{Kind: scheduler.NodeAdded, Node: n} }
	changed := func(kind scheduler.EventKind, old, p *corev1.Pod) scheduler.Event {
		return scheduler.Event{Kind: kind, Change: scheduler.PodChange(old, p), OldPod: old, Pod: p}
	}
	relabelled := labelled.DeepCopy()
	relabelled.Labels["zone"] = "a"
	foo, tolerant := selecting(label("foo", "Exists")), tolerating(corev1.Toleration{Operator: corev1.TolerationOpExists})
	renamed := tolerant.DeepCopy()
	renamed.Labels = map[string]string{"a": "b"}
	went := scheduler.Event{Kind: scheduler.NodeDeleted, OldNode: labelled}
	bound := scheduler.Event{Kind: scheduler.AssignedPodAdded, Pod: pod()}
	tests := map[string]struct {
		by    scheduler.Hinter
		pod   *corev1.Pod
		event scheduler.Event
		want  bool
	}{
		"a schedulable node came":             {plugins.NodeUnschedulable{}, pod(), added(node("n")), true},
		"a schedulable node got a label":      {plugins.NodeUnschedulable{}, pod(), updated(node("n"), labelled), false},
		"a cordoned node changed":             {plugins.NodeUnschedulable{}, pod(), updated(cordoned, cordoned), false},
		"a tolerant pod got a label":          {plugins.NodeUnschedulable{}, tolerant, changed(scheduler.PodUpdated, tolerant, renamed), false},
		"a node went, for cordons":            {plugins.NodeUnschedulable{}, pod(), went, false},
		"a node without taints came":          {plugins.TaintToleration{}, pod(), added(node("n")), true},
		"a node without taints got a label":   {plugins.TaintToleration{}, pod(), updated(node("n"), labelled), false},
		"a tainted node changed":              {plugins.TaintToleration{}, pod(), updated(tainted, tainted), false},
		"the pod got a label":                 {plugins.TaintToleration{}, tolerant, changed(scheduler.PodUpdated, tolerant, renamed), false},
		"a node went, for taints":             {plugins.TaintToleration{}, pod(), went, false},
		"a node that matched still does":      {plugins.NodeAffinity{}, foo, updated(labelled, relabelled), false},
		"a node that did not still does not":  {plugins.NodeAffinity{}, selecting(label("x", "Exists")), updated(labelled, relabelled), false},
		"a matching node got a taint":         {plugins.NodeAffinity{}, foo, scheduler.Event{Kind: scheduler.NodeUpdated, Change: scheduler.NodeTaintsChanged, OldNode: node("n"), Node: labelled}, false},
		"a pod was bound":                     {plugins.NodeResourcesFit{}, pod(), bound, false},
		"a node with room got a taint":        {plugins.NodeResourcesFit{}, pod("cpu", "1"), updated(labelled, tainted), false},
		"a pod with less got only a label":    {plugins.NodeResourcesFit{}, pod("cpu", "1"), scheduler.Event{Kind: scheduler.AssignedPodUpdated, Change: scheduler.PodLabelsChanged, OldPod: pod("cpu", "2"), Pod: pod("cpu", "1")}, false},
		"a node with more got only a label":   {plugins.NodeResourcesFit{}, pod("cpu", "1"), scheduler.Event{Kind: scheduler.NodeUpdated, Change: scheduler.NodeLabelsChanged, OldNode: node("n", "cpu", "1", "pods", "1"), Node: node("n", "cpu", "2", "pods", "1")}, false},
		"the pod in question asks for others": {plugins.NodeResourcesFit{}, pod("cpu", "1"), scheduler.Event{Kind: scheduler.PodUpdated, Change: scheduler.PodLabelsChanged}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tt.by.MayHelp(tt.pod, tt.event); got != tt.want {
				t.Errorf("MayHelp = %v", got)
			}
		})
	}
}
