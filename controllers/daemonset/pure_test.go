package daemonset_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/controllers/daemonset"
)

func template(change ...func(*corev1.PodSpec)) *corev1.PodTemplateSpec {
	t := &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "log"}}}
	for _, c := range change {
		c(&t.Spec)
	}
	return t
}

func nodeWith(name string, taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"on": name}}, Spec: corev1.NodeSpec{Taints: taints}}
}

func taint(key string, effect corev1.TaintEffect) corev1.Taint {
	return corev1.Taint{Key: key, Effect: effect}
}

func requires(terms ...corev1.NodeSelectorTerm) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		s.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
		}}
	}
}

func field(key string, operator corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: key, Operator: operator, Values: values}}}
}

func label(key string, values ...string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}}}
}

// TestPlacement: which nodes are to run a pod, and on which one may stay.
func TestPlacement(t *testing.T) {
	const noSchedule, noExecute = corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute
	hostNetwork := func(s *corev1.PodSpec) { s.HostNetwork = true }
	named := func(name string) func(*corev1.PodSpec) { return func(s *corev1.PodSpec) { s.NodeName = name } }
	selects := func(value string) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"on": value} }
	}
	tolerates := func(key string, effect corev1.TaintEffect) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) {
			s.Tolerations = append(s.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect})
		}
	}
	for name, tt := range map[string]struct {
		template  *corev1.PodTemplateSpec
		taints    []corev1.Taint
		run, stay bool
	}{
		"any node":                   {template(), nil, true, true},
		"by name":                    {template(named("n")), nil, true, true},
		"by another name":            {template(named("m")), nil, false, false},
		"by label":                   {template(selects("n")), nil, true, true},
		"by another label":           {template(selects("m")), nil, false, false},
		"by affinity":                {template(requires(label("on", "m", "n"))), nil, true, true},
		"by the affinity to another": {template(requires(label("on", "m"))), nil, false, false},
		"by field":                   {template(requires(field("metadata.name", corev1.NodeSelectorOpIn, "n"))), nil, true, true},
		"not by field":               {template(requires(field("metadata.name", corev1.NodeSelectorOpNotIn, "n"))), nil, false, false},
		"by one of two terms":        {template(requires(label("on", "m"), label("on", "n"))), nil, true, true},
		"by a term that is none":     {template(requires(corev1.NodeSelectorTerm{})), nil, false, false},
		"both label and affinity":    {template(selects("n"), requires(label("on", "m"))), nil, false, false},
		"tainted":                    {template(), []corev1.Taint{taint("a", noSchedule)}, false, true},
		"hard":                       {template(), []corev1.Taint{taint("a", noExecute)}, false, false},
		"both":                       {template(), []corev1.Taint{taint("a", noSchedule), taint("b", noExecute)}, false, false},
		"soft":                       {template(), []corev1.Taint{taint("a", corev1.TaintEffectPreferNoSchedule)}, true, true},
		"tolerated":                  {template(tolerates("a", "")), []corev1.Taint{taint("a", noSchedule), taint("a", noExecute)}, true, true},
		"half tolerated":             {template(tolerates("a", noExecute)), []corev1.Taint{taint("a", noSchedule), taint("a", noExecute)}, false, true},
		"not ready":                  {template(), []corev1.Taint{taint(corev1.TaintNodeNotReady, noExecute)}, true, true},
		"not ready, for pods to be":  {template(), []corev1.Taint{taint(corev1.TaintNodeNotReady, noSchedule)}, false, true},
		"unreachable":                {template(), []corev1.Taint{taint(corev1.TaintNodeUnreachable, noExecute)}, true, true},
		"disk":                       {template(), []corev1.Taint{taint(corev1.TaintNodeDiskPressure, noSchedule)}, true, true},
		"memory":                     {template(), []corev1.Taint{taint(corev1.TaintNodeMemoryPressure, noSchedule)}, true, true},
		"processes":                  {template(), []corev1.Taint{taint(corev1.TaintNodePIDPressure, noSchedule)}, true, true},
		"unschedulable":              {template(), []corev1.Taint{taint(corev1.TaintNodeUnschedulable, noSchedule)}, true, true},
		"network":                    {template(), []corev1.Taint{taint(corev1.TaintNodeNetworkUnavailable, noSchedule)}, false, true},
		"network of the host":        {template(hostNetwork), []corev1.Taint{taint(corev1.TaintNodeNetworkUnavailable, noSchedule)}, true, true},
		"out of service":             {template(), []corev1.Taint{taint(corev1.TaintNodeOutOfService, noExecute)}, false, false},
	} {
		if run, stay := daemonset.On(tt.template, nodeWith("n", tt.taints...)); run != tt.run || stay != tt.stay {
			t.Errorf("%s: run %t, stay %t; want %t and %t", name, run, stay, tt.run, tt.stay)
		}
	}
}

func TestTolerations(t *testing.T) {
	exists := func(key string, effect corev1.TaintEffect) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect}
	}
	own, brief := exists("own", ""), exists(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute)
	brief.TolerationSeconds = new(int64(5))
	spec := &corev1.PodSpec{Tolerations: []corev1.Toleration{own, brief}, HostNetwork: true}
	want := []corev1.Toleration{
		own,
		exists("node.kubernetes.io/unreachable", "NoExecute"), // for ever
		exists("node.kubernetes.io/not-ready", "NoExecute"),
		exists("node.kubernetes.io/disk-pressure", "NoSchedule"),
		exists("node.kubernetes.io/memory-pressure", "NoSchedule"),
		exists("node.kubernetes.io/pid-pressure", "NoSchedule"),
		exists("node.kubernetes.io/unschedulable", "NoSchedule"),
		exists("node.kubernetes.io/network-unavailable", "NoSchedule"),
	}
	if got := daemonset.Tolerations(spec); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if !reflect.DeepEqual(spec.Tolerations, []corev1.Toleration{own, brief}) {
		t.Errorf("the template was changed to %v", spec.Tolerations)
	}
	spec.HostNetwork = false
	if got := daemonset.Tolerations(spec); !reflect.DeepEqual(got, want[:len(want)-1]) {
		t.Errorf("with a network of its own: %v", got)
	}
}

// TestOnNode: the requirement replaces others of the node, and nothing else.
func TestOnNode(t *testing.T) {
	preferred := []corev1.PreferredSchedulingTerm{{Weight: 1, Preference: label("a", "b")}}
	want := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{field("metadata.name", corev1.NodeSelectorOpIn, "n")}}
	full := &corev1.Affinity{
		NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution:  &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{label("a", "b"), label("c", "d")}},
			PreferredDuringSchedulingIgnoredDuringExecution: preferred,
		},
		PodAffinity: &corev1.PodAffinity{},
	}
	for name, affinity := range map[string]*corev1.Affinity{"none": nil, "other": {PodAntiAffinity: &corev1.PodAntiAffinity{}}, "full": full} {
		before := affinity.DeepCopy()
		got := daemonset.OnNode(affinity, "n")
		if !reflect.DeepEqual(got.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution, want) {
			t.Errorf("%s: %v", name, got)
		}
		if !reflect.DeepEqual(affinity, before) {
			t.Errorf("%s: changed to %v", name, affinity)
		}
		if affinity != nil && (got.PodAffinity == nil) != (affinity.PodAffinity == nil) || name == "full" &&
			!reflect.DeepEqual(got.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution, preferred) {
			t.Errorf("%s: lost something: %v", name, got)
		}
	}
}

func TestNodeOf(t *testing.T) {
	const in = corev1.NodeSelectorOpIn
	for name, tt := range map[string]struct {
		spec *corev1.PodSpec
		want string
	}{
		"bound":             {&corev1.PodSpec{NodeName: "m", Affinity: daemonset.OnNode(nil, "n")}, "m"},
		"to be bound":       {&corev1.PodSpec{Affinity: daemonset.OnNode(nil, "n")}, "n"},
		"anywhere":          {&corev1.PodSpec{}, ""},
		"near others":       {&corev1.PodSpec{Affinity: &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}}}, ""},
		"preferences":       {&corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}}, ""},
		"no terms":          {&template(requires()).Spec, ""},
		"by label":          {&template(requires(label("metadata.name", "n"))).Spec, ""},
		"of two":            {&template(requires(field("metadata.name", in, "m", "n"))).Spec, ""},
		"not there":         {&template(requires(field("metadata.name", corev1.NodeSelectorOpNotIn, "n"))).Spec, ""},
		"by another field":  {&template(requires(field("spec.name", in, "n"))).Spec, ""},
		"by a further term": {&template(requires(label("a", "b"), field("metadata.name", in, "n"))).Spec, "n"},
	} {
		if got, ok := daemonset.NodeOf(&corev1.Pod{Spec: *tt.spec}); got != tt.want || ok != (tt.want != "") {
			t.Errorf("%s: %q, %t", name, got, ok)
		}
	}
}

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// pod makes a pod of the current template that has been ready for an hour on the node that its name begins with.
func pod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	node, _, _ := strings.Cut(name, "-")
	hour := metav1.NewTime(noon.Add(-time.Hour))
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, CreationTimestamp: hour, Labels: map[string]string{"controller-revision-hash": "now"}},
		Spec:       corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: hour},
		}},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func old(p *corev1.Pod)     { p.Labels["controller-revision-hash"] = "before" }
func unready(p *corev1.Pod) { p.Status.Conditions = nil }
func gone(p *corev1.Pod)    { p.DeletionTimestamp = &p.CreationTimestamp }
func failed(p *corev1.Pod)  { p.Status.Phase = corev1.PodFailed }
func done(p *corev1.Pod)    { p.Status.Phase = corev1.PodSucceeded }
func unbound(p *corev1.Pod) {
	p.Spec.Affinity, p.Spec.NodeName = daemonset.OnNode(nil, p.Spec.NodeName), ""
}
func readyFor(d time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(noon.Add(-d)) }
}
func aged(d time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(noon.Add(-d)) }
}

// rolling is a set that rolls out with these limits; "" is none.
func rolling(unavailable, surge string) *appsv1.DaemonSet {
	r := &appsv1.RollingUpdateDaemonSet{}
	if unavailable != "" {
		r.MaxUnavailable = new(intstr.Parse(unavailable))
	}
	if surge != "" {
		r.MaxSurge = new(intstr.Parse(surge))
	}
	return &appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{
		Template:       *template(),
		UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.RollingUpdateDaemonSetStrategyType, RollingUpdate: r},
	}}
}

// abc are nodes, of which the last may keep a pod but gets none, and one more that must not run any.
func abc() []*corev1.Node {
	return []*corev1.Node{
		nodeWith("a"), nodeWith("b"), nodeWith("c"),
		nodeWith("keeps", taint("x", corev1.TaintEffectNoSchedule)), nodeWith("none", taint("x", corev1.TaintEffectNoExecute)),
	}
}

func TestManage(t *testing.T) {
	allowed := func(string) (time.Duration, bool) { return 0, true }
	plain, surging := rolling("1", "0"), rolling("0", "1")
	patient := rolling("0", "1")
	patient.Spec.MinReadySeconds = 60
	onDelete := rolling("0", "1")
	onDelete.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType
	for _, tt := range []struct {
		name           string
		set            *appsv1.DaemonSet
		pods           []*corev1.Pod
		create, remove string
	}{
		{"nothing there", plain, nil, "a b c", ""},
		{"all there", plain, []*corev1.Pod{pod("a-1"), pod("b-1", unbound), pod("c-1", old)}, "", ""},
		{"tolerated", plain, []*corev1.Pod{pod("a-1"), pod("b-1"), pod("c-1"), pod("keeps-1"), pod("none-1"), pod("none-2", gone)}, "", "none-1"},
		{"one is going", plain, []*corev1.Pod{pod("a-1", gone), pod("b-1"), pod("c-1")}, "", ""},
		{"one has ended and is going", plain, []*corev1.Pod{pod("a-1", gone, failed), pod("b-1"), pod("c-1")}, "a", ""},
		{"ended", plain, []*corev1.Pod{pod("a-1", failed), pod("b-1", done), pod("c-1"), pod("keeps-1", failed)}, "", "a-1 b-1 keeps-1"},
		{"one that is older and not bound", plain, []*corev1.Pod{pod("a-2"), pod("a-1", aged(time.Hour*9), unbound), pod("b-1"), pod("c-1")}, "", "a-1"},
		{"several", plain, []*corev1.Pod{pod("a-1", aged(time.Minute)), pod("a-2"), pod("a-3", aged(time.Second)), pod("b-2"), pod("b-1"), pod("c-1", aged(time.Hour*9), unbound), pod("c-2")},
			"", "a-1 a-3 b-2 c-1"},
		{"on nodes that are gone", plain, []*corev1.Pod{pod("a-1"), pod("b-1"), pod("c-1"), pod("z-1"), pod("z-2", unbound), pod("y-1", unbound, gone)}, "", "z-2"},
		{"none of ours", plain, []*corev1.Pod{pod("a-1", func(p *corev1.Pod) { p.Spec.NodeName = "" })}, "a b c", ""},

		{"surge: nothing there", surging, nil, "a b c", ""},
		{"surge: one is going", surging, []*corev1.Pod{pod("a-1", gone), pod("b-1"), pod("c-1"), pod("keeps-1", gone)}, "a", ""},
		{"surge: both ready", surging, []*corev1.Pod{pod("a-1", old), pod("a-2"), pod("b-1"), pod("c-1")}, "", "a-1"},
		{"surge: the new one is not ready", surging, []*corev1.Pod{pod("a-1", old), pod("a-2", unready), pod("b-1"), pod("c-1")}, "", ""},
		{"surge: nor is the old one", surging, []*corev1.Pod{pod("a-1", old, unready), pod("a-2", unready), pod("b-1"), pod("c-1")}, "", "a-1"},
		{"surge: not available", patient, []*corev1.Pod{pod("a-1", old), pod("a-2", readyFor(time.Second)), pod("b-1"), pod("c-1")}, "", ""},
		{"surge: available", patient, []*corev1.Pod{pod("a-1", old), pod("a-2", readyFor(time.Minute)), pod("b-1"), pod("c-1")}, "", "a-1"},
		{"surge: three of each", surging, []*corev1.Pod{
			pod("a-1", old), pod("a-2", old, aged(time.Minute)), pod("a-3", unready), pod("a-4", unready, aged(time.Minute)), pod("b-1"), pod("c-1"),
		}, "", "a-2 a-4"},
		{"surge: two of the same", surging, []*corev1.Pod{pod("a-1", old), pod("a-2", old, aged(time.Minute)), pod("b-1"), pod("c-1")}, "", "a-2"},
		{"a surge that does not count", onDelete, []*corev1.Pod{pod("a-1", old), pod("a-2", unready), pod("b-1"), pod("c-1")}, "", "a-2"},
	} {
		create, remove, retry := daemonset.View{Set: tt.set, Nodes: abc(), Pods: tt.pods, Hash: "now", Now: noon}.Manage(allowed)
		if got := strings.Join(create, " "); got != tt.create {
			t.Errorf("%s: pods on %q, want %q", tt.name, got, tt.create)
		}
		if got := strings.Join(remove, " "); got != tt.remove || retry != 0 {
			t.Errorf("%s: removes %q, want %q; retry %v", tt.name, got, tt.remove, retry)
		}
	}
	_, remove, retry := daemonset.View{
		Set: plain, Nodes: abc(), Pods: []*corev1.Pod{pod("a-1", failed), pod("b-1", failed), pod("c-1", failed), pod("a-2", done)}, Hash: "now", Now: noon,
	}.Manage(func(node string) (time.Duration, bool) {
		return map[string]time.Duration{"a": time.Minute, "b": time.Second}[node], node == "c"
	})
	if !slices.Equal(remove, []string{"a-2", "c-1"}) || retry != time.Second {
		t.Errorf("delayed: removes %q, retry %v", remove, retry)
	}
}

func TestRoll(t *testing.T) {
	all := func(change ...func(*corev1.Pod)) []*corev1.Pod {
		return []*corev1.Pod{pod("a-1", change...), pod("b-1", change...), pod("c-1", change...)}
	}
	patient := rolling("1", "0")
	patient.Spec.MinReadySeconds = 60
	counted := rolling("1", "0")
	counted.Annotations = map[string]string{appsv1.DeprecatedTemplateGeneration: "07"}
	silent := rolling("", "")
	silent.Spec.UpdateStrategy.RollingUpdate = nil
	generation := func(p *corev1.Pod) { p.Labels["pod-template-generation"] = "7" }
	for _, tt := range []struct {
		name           string
		set            *appsv1.DaemonSet
		pods           []*corev1.Pod
		create, remove string
	}{
		{"nothing old", rolling("1", "0"), all(), "", ""},
		{"one by one", rolling("1", "0"), all(old), "", "a-1"},
		{"two at once", rolling("2", "0"), all(old), "", "a-1 b-1"},
		{"a part, rounded up", rolling("34%", "0"), all(old), "", "a-1 b-1"},
		{"all at once", rolling("100%", "0"), append(all(old), pod("keeps-1", old)), "", "a-1 b-1 c-1"},
		{"none, which cannot be", rolling("0", "0"), all(old), "", "a-1"},
		{"no surge said", rolling("1", ""), all(old), "", "a-1"},
		{"nothing said", silent, all(old), "", "a-1"},
		{"one is not available", rolling("1", "0"), []*corev1.Pod{pod("a-1", unready), pod("b-1", old), pod("c-1", old)}, "", ""},
		{"an old one is not available", rolling("1", "0"), []*corev1.Pod{pod("a-1", old), pod("b-1", old, unready), pod("c-1", old)}, "", "b-1"},
		{"all old ones that are not available", rolling("1", "0"), all(old, unready), "", "a-1 b-1 c-1"},
		{"one is missing", rolling("1", "0"), all(old)[:2], "", ""},
		{"one is being deleted", rolling("1", "0"), []*corev1.Pod{pod("a-1", old, gone), pod("b-1", old), pod("c-1", old)}, "", ""},
		{"two on a node", rolling("1", "0"), append(all(old), pod("a-2")), "", ""},
		{"two old ones on a node", rolling("1", "0"), append(all(old), pod("a-2", old)), "", ""},
		{"two new ones on a node", rolling("1", "0"), append(all(old)[1:], pod("a-1"), pod("a-2")), "", ""},
		{"one has not been ready for long", patient, []*corev1.Pod{pod("a-1", readyFor(59*time.Second)), pod("b-1", old), pod("c-1", old)}, "", ""},
		{"long enough", patient, []*corev1.Pod{pod("a-1", readyFor(time.Minute)), pod("b-1", old), pod("c-1", old)}, "", "b-1"},
		{"counted generations", counted, []*corev1.Pod{pod("a-1", old, generation), pod("b-1", old), pod("c-1", old)}, "", "b-1"},
		{"on a node that gets none", rolling("1", "0"), append(all(), pod("keeps-1", old)), "", "keeps-1"},

		{"surge: nothing old", rolling("0", "1"), all(), "", ""},
		{"surge: one by one", rolling("0", "1"), all(old), "a", ""},
		{"surge: two at once", rolling("0", "2"), all(old), "a b", ""},
		{"surge: a part, rounded up", rolling("0", "34%"), all(old), "a b", ""},
		{"surge: the new one is not available", rolling("0", "1"), append(all(old), pod("a-2", unready)), "", ""},
		{"surge: the new one is available", rolling("0", "1"), append(all(old), pod("a-2")), "b", "a-1"},
		{"surge: the old one is not available", rolling("0", "1"), []*corev1.Pod{pod("a-1", old), pod("b-1", old, unready), pod("c-1", old, unready)}, "b c a", ""},
		{"surge: two old ones on a node", rolling("0", "1"), append(all(old), pod("b-2", old)), "", ""},
		{"surge: unwanted and available", rolling("0", "1"), append(all(), pod("keeps-1", old)), "", "keeps-1"},
		{"surge: unwanted but needed", rolling("0", "1"), []*corev1.Pod{pod("a-1"), pod("b-1"), pod("c-1", unready), pod("keeps-1", old)}, "", ""},
		{"surge: one of two is needed", rolling("0", "1"), []*corev1.Pod{pod("a-1"), pod("b-1"), pod("c-1", unready), pod("keeps-1", old), pod("none-1", old)}, "", "keeps-1"},
		{"surge: unwanted and not available", rolling("0", "1"), append(all(), pod("keeps-1", old, unready)), "", "keeps-1"},
	} {
		create, remove, err := daemonset.View{Set: tt.set, Nodes: abc(), Pods: tt.pods, Hash: "now", Now: noon}.Roll()
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if got := strings.Join(create, " "); got != tt.create {
			t.Errorf("%s: pods on %q, want %q", tt.name, got, tt.create)
		}
		if got := strings.Join(remove, " "); got != tt.remove {
			t.Errorf("%s: removes %q, want %q", tt.name, got, tt.remove)
		}
	}
	for name, tt := range map[string]struct {
		set  *appsv1.DaemonSet
		pods []*corev1.Pod
		want string
	}{
		"unavailable": {rolling("few", "0"), nil, "couldn't get unavailable numbers: invalid value for MaxUnavailable: "},
		"surge":       {rolling("0", "few"), nil, "couldn't get unavailable numbers: invalid value for MaxSurge: "},
		"no node":     {rolling("0", "1"), []*corev1.Pod{pod("z-1", old)}, `couldn't get node for nodeName "z": `},
	} {
		_, _, err := daemonset.View{Set: tt.set, Nodes: abc(), Pods: tt.pods, Hash: "now", Now: noon}.Roll()
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if create, remove, err := (daemonset.View{Set: rolling("0", "0"), Hash: "now", Now: noon}).Roll(); len(create)+len(remove) > 0 || err != nil {
		t.Errorf("without nodes: %q, %q, %v", create, remove, err)
	}
}

func TestStatus(t *testing.T) {
	set := rolling("1", "0")
	set.Spec.MinReadySeconds = 60
	pods := []*corev1.Pod{
		pod("a-1", old), pod("a-2", aged(2*time.Hour), readyFor(time.Second)), // the older one counts
		pod("b-1", old),
		pod("none-1", gone), pod("z-1"),
	}
	nodes := append(abc(), nodeWith("d"), nodeWith("e"))
	pods = append(pods, pod("d-1", unready, gone), pod("e-1", failed, gone))
	got := daemonset.View{Set: set, Nodes: nodes, Pods: pods, Hash: "now", Now: noon}.Status()
	want := appsv1.DaemonSetStatus{
		DesiredNumberScheduled: 5, CurrentNumberScheduled: 3, NumberMisscheduled: 1, NumberReady: 2, NumberAvailable: 1,
		UpdatedNumberScheduled: 2, NumberUnavailable: 4,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// TestBackoff: the delays of a node double, and are forgotten after long.
func TestBackoff(t *testing.T) {
	b, now := daemonset.NewBackoff(), noon
	allowed := func(what string, want bool, retry time.Duration) {
		t.Helper()
		if got, ok := b.Delete(1, "n", now); ok != want || got != retry {
			t.Errorf("%s: %v, retry %v", what, ok, got)
		}
	}
	allowed("the first", true, 0)
	for delay := time.Second; delay < 15*time.Minute; delay *= 2 {
		allowed("at once", false, delay)
		now = now.Add(delay - 1)
		allowed("too early", false, delay)
		now = now.Add(1)
		allowed("in time", true, 0)
	}
	now = now.Add(15*time.Minute - 1)
	allowed("too early", false, 15*time.Minute)
	now = now.Add(1)
	allowed("at most", true, 0)
	if _, ok := b.Delete(1, "m", now); !ok {
		t.Error("another node has to wait")
	}
	if _, ok := b.Delete(2, "n", now); !ok {
		t.Error("another generation has to wait")
	}
	now = now.Add(30*time.Minute + 1)
	allowed("after long", true, 0)
	allowed("from the start", false, time.Second)
	if n := b.Len(); n != 1 {
		t.Errorf("remembers %d", n)
	}
	now = now.Add(30*time.Minute - 10*time.Second)
	if _, ok := b.Delete(1, "m", now); !ok {
		t.Error("another node has to wait")
	}
	now = now.Add(20 * time.Second)
	allowed("after long, which was not swept", true, 0)
	allowed("from the start", false, time.Second)
}
