package plugins_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/plugins"
)

// list returns a resource list from pairs of a resource and an amount.
func list(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

func node(name string, pairs ...string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Allocatable: list(pairs...)}}
}

// pod returns a pod with one container that requests the pairs.
func pod(pairs ...string) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Resources: corev1.ResourceRequirements{Requests: list(pairs...)},
	}}}}
}

// edit changes a pod and returns it.
func edit(p *corev1.Pod, f func(*corev1.PodSpec)) *corev1.Pod {
	f(&p.Spec)
	return p
}

type expect struct {
	pod  *corev1.Pod
	node *scheduler.NodeInfo
	want *scheduler.Refusal
}

// check tests the predicate itself, and a profile of it alone.
func check(t *testing.T, p scheduler.Predicate, tests map[string]expect) {
	t.Helper()
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, p.Check(tt.pod, tt.node)); diff != "" {
				t.Error(diff)
			}
			profile := scheduler.Profile{Plugins: []scheduler.Enabled{{Plugin: p}}}
			var pods []*corev1.Pod
			for _, info := range tt.node.Pods {
				other := info.Pod.DeepCopy()
				other.Spec.NodeName = tt.node.Name
				pods = append(pods, other)
			}
			d := profile.Schedule(tt.pod, scheduler.NewSnapshot([]*corev1.Node{tt.node.Node}, pods))
			if (d.Node == "") != (tt.want != nil) {
				t.Errorf("decided otherwise:\n%v", d)
			}
		})
	}
}

func refused(reasons ...string) *scheduler.Refusal { return &scheduler.Refusal{Reasons: reasons} }

func never(reasons ...string) *scheduler.Refusal {
	return &scheduler.Refusal{Reasons: reasons, Unresolvable: true}
}

func TestNodeResourcesFit(t *testing.T) {
	small := func(pods ...*corev1.Pod) *scheduler.NodeInfo {
		return scheduler.NewNodeInfo(node("n", "cpu", "10m", "memory", "20", "pods", "32",
			"ephemeral-storage", "20", "example.com/aaa", "5", "hugepages-2Mi", "5"), pods...)
	}
	full := scheduler.NewNodeInfo(node("n", "cpu", "10m", "memory", "20", "pods", "1"), pod("cpu", "5m", "memory", "19"))
	always := corev1.ContainerRestartPolicyAlways
	with := func(f func(*corev1.PodSpec), pairs ...string) *corev1.Pod { return edit(pod(pairs...), f) }
	first := func(pairs ...string) corev1.Container {
		return corev1.Container{Resources: corev1.ResourceRequirements{Requests: list(pairs...)}}
	}
	check(t, plugins.NodeResourcesFit{}, map[string]expect{
		"no requests":           {pod(), small(pod("cpu", "10m", "memory", "20")), nil},
		"too much of two":       {pod("cpu", "1m", "memory", "1"), small(pod("cpu", "10m", "memory", "20")), refused("Insufficient cpu", "Insufficient memory")},
		"just right":            {pod("cpu", "5m", "memory", "1"), small(pod("cpu", "5m", "memory", "19")), nil},
		"only memory":           {pod("cpu", "1m", "memory", "2"), small(pod("cpu", "5m", "memory", "19")), refused("Insufficient memory")},
		"more than allocatable": {pod("cpu", "11m", "memory", "1"), small(), never("Insufficient cpu")},
		"one of two never":      {pod("cpu", "11m", "memory", "2"), small(pod("memory", "19")), never("Insufficient cpu", "Insufficient memory")},
		"too many pods":         {pod(), full, refused("Too many pods")},
		"too many, too much":    {pod("cpu", "6m"), full, refused("Too many pods", "Insufficient cpu")},
		"ephemeral storage":     {pod("ephemeral-storage", "15"), small(pod("ephemeral-storage", "10")), refused("Insufficient ephemeral-storage")},
		"extended fits":         {pod("example.com/aaa", "3"), small(pod("example.com/aaa", "2")), nil},
		"extended used":         {pod("example.com/aaa", "3"), small(pod("example.com/aaa", "3")), refused("Insufficient example.com/aaa")},
		"extended too much":     {pod("example.com/aaa", "10"), small(), never("Insufficient example.com/aaa")},
		"extended unknown":      {pod("example.com/bbb", "1"), small(), never("Insufficient example.com/bbb")},
		"extended zero":         {pod("example.com/bbb", "0"), small(), nil},
		"hugepages":             {pod("hugepages-2Mi", "3"), small(pod("hugepages-2Mi", "3")), refused("Insufficient hugepages-2Mi")},
		"prefixed native":       {pod("kubernetes.io/something", "10"), small(), never("Insufficient kubernetes.io/something")},
		"reasons are in order":  {pod("example.com/z", "1", "example.com/b", "1"), small(), never("Insufficient example.com/b", "Insufficient example.com/z")},
		"init containers count by their maximum": {
			with(func(s *corev1.PodSpec) { s.InitContainers = []corev1.Container{first("cpu", "8m"), first("cpu", "3m")} }, "cpu", "1m"),
			small(pod("cpu", "2m")), nil,
		},
		"init container too large": {
			with(func(s *corev1.PodSpec) { s.InitContainers = []corev1.Container{first("cpu", "8m"), first("cpu", "3m")} }, "cpu", "1m"),
			small(pod("cpu", "3m")), refused("Insufficient cpu"),
		},
		"sidecars add up": {
			with(func(s *corev1.PodSpec) {
				s.InitContainers = []corev1.Container{first("cpu", "4m")}
				s.InitContainers[0].RestartPolicy = &always
			}, "cpu", "7m"),
			small(), never("Insufficient cpu"),
		},
		"overhead adds up": {
			with(func(s *corev1.PodSpec) { s.Overhead = list("cpu", "3m") }, "cpu", "6m"),
			small(pod("cpu", "2m")), refused("Insufficient cpu"),
		},
		"the pod as a whole": {
			with(func(s *corev1.PodSpec) { s.Resources = &corev1.ResourceRequirements{Requests: list("cpu", "9m")} }, "cpu", "1m"),
			small(pod("cpu", "2m")), refused("Insufficient cpu"),
		},
	})
}

func TestNodeResourcesFitIgnores(t *testing.T) {
	empty := scheduler.NewNodeInfo(node("n", "cpu", "1", "pods", "10"))
	check(t, plugins.NodeResourcesFit{Ignored: []string{"example.com/aaa"}, IgnoredGroups: []string{"ignored.io", "kubernetes.io"}}, map[string]expect{
		"by name":          {pod("example.com/aaa", "2"), empty, nil},
		"by group":         {pod("ignored.io/x", "2"), empty, nil},
		"another":          {pod("example.com/bbb", "2"), empty, never("Insufficient example.com/bbb")},
		"never native":     {pod("kubernetes.io/x", "2"), empty, never("Insufficient kubernetes.io/x")},
		"only of extended": {pod("hugepages-1Gi", "2"), empty, never("Insufficient hugepages-1Gi")},
	})
}

func ports(all ...corev1.ContainerPort) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Ports: all}}}}
}

func port(ip string, protocol corev1.Protocol, number int32) corev1.ContainerPort {
	return corev1.ContainerPort{HostIP: ip, Protocol: protocol, HostPort: number}
}

func TestNodePorts(t *testing.T) {
	taken := refused("node(s) didn't have free ports for the requested pod ports")
	on := func(p *corev1.Pod) *scheduler.NodeInfo { return scheduler.NewNodeInfo(node("n"), p) }
	always, sidecar, initial := corev1.ContainerRestartPolicyAlways, &corev1.Pod{}, &corev1.Pod{}
	sidecar.Spec.InitContainers = []corev1.Container{{RestartPolicy: &always, Ports: []corev1.ContainerPort{port("", "TCP", 80)}}}
	initial.Spec.InitContainers = []corev1.Container{{Ports: []corev1.ContainerPort{port("", "TCP", 80)}}}
	check(t, plugins.NodePorts{}, map[string]expect{
		"none":                 {ports(), on(ports(port("", "TCP", 80))), nil},
		"no host port":         {ports(corev1.ContainerPort{ContainerPort: 80}), on(ports(port("", "TCP", 80))), nil},
		"other port":           {ports(port("127.0.0.1", "UDP", 8080)), on(ports(port("127.0.0.1", "UDP", 9090))), nil},
		"same":                 {ports(port("127.0.0.1", "UDP", 8080)), on(ports(port("127.0.0.1", "UDP", 8080))), taken},
		"other address":        {ports(port("127.0.0.1", "TCP", 8080)), on(ports(port("127.0.0.2", "TCP", 8080))), nil},
		"other protocol":       {ports(port("127.0.0.1", "TCP", 8080)), on(ports(port("127.0.0.1", "UDP", 8080))), nil},
		"TCP is the default":   {ports(port("", "", 80)), on(ports(port("", "TCP", 80))), taken},
		"all addresses wanted": {ports(port("0.0.0.0", "TCP", 80)), on(ports(port("127.0.0.1", "TCP", 80))), taken},
		"all addresses used":   {ports(port("127.0.0.1", "TCP", 80)), on(ports(port("", "TCP", 80))), taken},
		"second port":          {ports(port("", "UDP", 1), port("", "TCP", 80)), on(ports(port("", "TCP", 80))), taken},
		"sidecar":              {ports(port("", "TCP", 80)), on(sidecar), taken},
		"init container":       {ports(port("", "TCP", 80)), on(initial), nil},
	})
}

func TestNodeName(t *testing.T) {
	named := func(name string) *corev1.Pod { return edit(pod(), func(s *corev1.PodSpec) { s.NodeName = name }) }
	check(t, plugins.NodeName{}, map[string]expect{
		"none":  {named(""), scheduler.NewNodeInfo(node("foo")), nil},
		"this":  {named("foo"), scheduler.NewNodeInfo(node("foo")), nil},
		"other": {named("bar"), scheduler.NewNodeInfo(node("foo")), never("node(s) didn't match the requested node name")},
	})
}

func tolerating(all ...corev1.Toleration) *corev1.Pod {
	return edit(pod(), func(s *corev1.PodSpec) { s.Tolerations = all })
}

func TestNodeUnschedulable(t *testing.T) {
	cordoned := node("n")
	cordoned.Spec.Unschedulable = true
	check(t, plugins.NodeUnschedulable{}, map[string]expect{
		"schedulable":          {pod(), scheduler.NewNodeInfo(node("n")), nil},
		"not":                  {pod(), scheduler.NewNodeInfo(cordoned), never("node(s) were unschedulable")},
		"tolerated":            {tolerating(corev1.Toleration{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}), scheduler.NewNodeInfo(cordoned), nil},
		"everything tolerated": {tolerating(corev1.Toleration{Operator: corev1.TolerationOpExists}), scheduler.NewNodeInfo(cordoned), nil},
	})
}

func TestTaintToleration(t *testing.T) {
	tainted := func(taints ...corev1.Taint) *scheduler.NodeInfo {
		n := node("n")
		n.Spec.Taints = taints
		return scheduler.NewNodeInfo(n)
	}
	taint := func(effect corev1.TaintEffect) corev1.Taint {
		return corev1.Taint{Key: "dedicated", Value: "user1", Effect: effect}
	}
	not := never("node(s) had untolerated taint(s)")
	check(t, plugins.TaintToleration{}, map[string]expect{
		"no toleration":    {pod(), tainted(taint("NoSchedule")), not},
		"NoExecute":        {pod(), tainted(taint("NoExecute")), not},
		"soft":             {pod(), tainted(taint("PreferNoSchedule")), nil},
		"tolerated":        {tolerating(corev1.Toleration{Key: "dedicated", Value: "user1", Effect: "NoSchedule"}), tainted(taint("NoSchedule")), nil},
		"other value":      {tolerating(corev1.Toleration{Key: "dedicated", Operator: "Equal", Value: "user2", Effect: "NoSchedule"}), tainted(taint("NoSchedule")), not},
		"other effect":     {tolerating(corev1.Toleration{Key: "dedicated", Value: "user1", Effect: "NoExecute"}), tainted(taint("NoSchedule")), not},
		"exists":           {tolerating(corev1.Toleration{Key: "dedicated", Operator: "Exists"}), tainted(taint("NoSchedule")), nil},
		"one of two":       {tolerating(corev1.Toleration{Key: "dedicated", Operator: "Exists"}), tainted(taint("NoSchedule"), corev1.Taint{Key: "x", Effect: "NoSchedule"}), not},
		"comparing is off": {tolerating(corev1.Toleration{Key: "dedicated", Operator: "Gt", Value: "1"}), tainted(corev1.Taint{Key: "dedicated", Value: "5", Effect: "NoSchedule"}), not},
	})
}

func selecting(terms ...corev1.NodeSelectorTerm) *corev1.Pod {
	return edit(pod(), func(s *corev1.PodSpec) {
		s.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
		}}
	})
}

func label(key string, operator corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: operator, Values: values}}}
}

func named(names ...string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{
		{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: names},
	}}
}

func TestNodeAffinity(t *testing.T) {
	n := node("node1")
	n.Labels = map[string]string{"foo": "bar", "kernel": "0206"}
	info := scheduler.NewNodeInfo(n)
	not := never("node(s) didn't match Pod's node affinity/selector")
	selector := func(kv map[string]string) *corev1.Pod {
		return edit(pod(), func(s *corev1.PodSpec) { s.NodeSelector = kv })
	}
	both := selecting(label("foo", "Exists"))
	both.Spec.NodeSelector = map[string]string{"foo": "baz"}
	check(t, plugins.NodeAffinity{}, map[string]expect{
		"none":                     {pod(), info, nil},
		"selector":                 {selector(map[string]string{"foo": "bar"}), info, nil},
		"selector of other value":  {selector(map[string]string{"foo": "baz"}), info, not},
		"selector of two":          {selector(map[string]string{"foo": "bar", "zone": "a"}), info, not},
		"In":                       {selecting(label("foo", "In", "bar", "value2")), info, nil},
		"Gt":                       {selecting(label("kernel", "Gt", "0204")), info, nil},
		"NotIn":                    {selecting(label("mem", "NotIn", "x")), info, nil},
		"DoesNotExist":             {selecting(label("foo", "DoesNotExist")), info, not},
		"any term is enough":       {selecting(label("diff", "In", "x"), label("foo", "In", "bar")), info, nil},
		"no terms match nothing":   {selecting(), info, not},
		"an empty term nothing":    {selecting(corev1.NodeSelectorTerm{}), info, not},
		"a broken term nothing":    {selecting(label("foo", "Near", "x")), info, not},
		"selector and affinity":    {both, info, not},
		"by name":                  {selecting(named("node1")), info, nil},
		"by other name":            {selecting(named("node2")), info, not},
		"by name and label":        {selecting(corev1.NodeSelectorTerm{MatchFields: named("node1").MatchFields, MatchExpressions: label("foo", "In", "baz").MatchExpressions}), info, not},
		"no name of either of two": {selecting(corev1.NodeSelectorTerm{MatchFields: append(named("node1").MatchFields, named("node2").MatchFields...)}), info, not},
	})
}

func TestSchedulingGates(t *testing.T) {
	gated := edit(pod(), func(s *corev1.PodSpec) { s.SchedulingGates = []corev1.PodSchedulingGate{{Name: "foo"}, {Name: "bar"}} })
	check(t, plugins.SchedulingGates{}, map[string]expect{
		"none":  {pod(), scheduler.NewNodeInfo(node("n")), nil},
		"gated": {gated, scheduler.NewNodeInfo(node("n")), never("waiting for scheduling gates: [foo bar]")},
	})
}

// Messages are those of upstream's FitError for whole clusters.
func TestMessages(t *testing.T) {
	cordoned, tainted := node("b", "cpu", "4", "pods", "10"), node("c", "cpu", "4", "pods", "10")
	cordoned.Spec.Unschedulable = true
	tainted.Spec.Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoExecute}}
	nodes := []*corev1.Node{node("a", "cpu", "1", "pods", "10"), cordoned, tainted, node("d", "cpu", "1", "memory", "1", "pods", "0")}
	tests := map[string]struct {
		pod       *corev1.Pod
		nodes     []*corev1.Node
		want      string
		refusedBy []string
	}{
		"no nodes": {pod(), nil, "no nodes available to schedule pods", nil},
		"a reason each": {
			pod("cpu", "2", "memory", "2"), nodes,
			"0/4 nodes are available: 1 Too many pods, 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, 2 Insufficient cpu, 2 Insufficient memory.",
			[]string{"NodeResourcesFit", "NodeUnschedulable", "TaintToleration"},
		},
		"gated": {
			edit(pod(), func(s *corev1.PodSpec) { s.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} }), nodes,
			"0/4 nodes are available: waiting for scheduling gates: [g].",
			[]string{"SchedulingGates"},
		},
		"a node by name that is tainted": {
			selecting(named("c")), nodes,
			"0/4 nodes are available: 1 node(s) had untolerated taint(s), 3 node(s) didn't satisfy plugin(s) [NodeAffinity].",
			[]string{"NodeAffinity", "TaintToleration"},
		},
		"a node by name that is not there": {
			selecting(named("z")), nodes,
			"0/4 nodes are available: 4 node(s) didn't satisfy plugin(s) [NodeAffinity].",
			[]string{"NodeAffinity"},
		},
		"names that exclude each other": {
			edit(selecting(named("a")), func(s *corev1.PodSpec) { s.NodeName = "b" }), nodes,
			"0/4 nodes are available: node(s) didn't satisfy plugin(s) [NodeAffinity NodeName] simultaneously.",
			[]string{"NodeAffinity", "NodeName"},
		},
		"terms that conflict": {
			selecting(corev1.NodeSelectorTerm{MatchFields: append(named("a").MatchFields, named("b").MatchFields...)}), nodes,
			"0/4 nodes are available: pod affinity terms conflict.",
			[]string{"NodeAffinity"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			profile := scheduler.Profile{Plugins: plugins.Default()}
			d := profile.Schedule(tt.pod, scheduler.NewSnapshot(tt.nodes, nil))
			if d.Err == nil || d.Err.Error() != tt.want {
				t.Errorf("got  %v\nwant %v", d.Err, tt.want)
			}
			if fit, ok := errors.AsType[*scheduler.FitError](d.Err); ok {
				if diff := cmp.Diff(tt.refusedBy, fit.RefusedBy); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

func TestHints(t *testing.T) {
	big, small, tiny := node("n", "cpu", "4", "pods", "10"), node("n", "cpu", "1", "pods", "10"), node("n", "cpu", "1", "pods", "11")
	cordoned := node("n")
	cordoned.Spec.Unschedulable = true
	tainted := node("n")
	tainted.Spec.Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoSchedule}}
	labelled := node("n")
	labelled.Labels = map[string]string{"foo": "bar"}
	added := func(n *corev1.Node) scheduler.Event { return scheduler.Event{Kind: scheduler.NodeAdded, Node: n} }
	updated := func(old, n *corev1.Node) scheduler.Event {
		return scheduler.Event{Kind: scheduler.NodeUpdated, Change: scheduler.NodeChange(old, n), OldNode: old, Node: n}
	}
	gone := func(p *corev1.Pod) scheduler.Event {
		return scheduler.Event{Kind: scheduler.AssignedPodDeleted, OldPod: p}
	}
	changed := func(kind scheduler.EventKind, old, p *corev1.Pod) scheduler.Event {
		return scheduler.Event{Kind: kind, Change: scheduler.PodChange(old, p), OldPod: old, Pod: p}
	}
	web, foo := ports(port("", "TCP", 80)), selecting(label("foo", "Exists"))
	gated := edit(pod(), func(s *corev1.PodSpec) { s.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} })
	unschedulable := tolerating(corev1.Toleration{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists})
	tests := map[string]struct {
		by    string
		pod   *corev1.Pod
		event scheduler.Event
		want  bool
	}{
		"a pod went":                   {"NodeResourcesFit", pod("cpu", "2"), gone(pod("memory", "1")), true},
		"a node came":                  {"NodeResourcesFit", pod("cpu", "2"), added(big), true},
		"a node too small came":        {"NodeResourcesFit", pod("cpu", "2"), added(small), false},
		"a node grew":                  {"NodeResourcesFit", pod("cpu", "2"), updated(small, big), true},
		"a node shrank":                {"NodeResourcesFit", pod("cpu", "1"), updated(big, small), false},
		"a node takes more pods":       {"NodeResourcesFit", pod("cpu", "1"), updated(small, tiny), true},
		"a node got a label":           {"NodeResourcesFit", pod(), updated(node("n"), labelled), false},
		"a pod asks for less":          {"NodeResourcesFit", pod("cpu", "1"), changed(scheduler.AssignedPodUpdated, pod("cpu", "3"), pod("cpu", "2")), true},
		"a pod asks for more":          {"NodeResourcesFit", pod("cpu", "1"), changed(scheduler.AssignedPodUpdated, pod("cpu", "2"), pod("cpu", "3")), false},
		"a pod asks for other things":  {"NodeResourcesFit", pod("cpu", "1"), changed(scheduler.AssignedPodUpdated, pod("memory", "3"), pod("memory", "2")), false},
		"the pod itself asks for less": {"NodeResourcesFit", pod("cpu", "1"), changed(scheduler.PodUpdated, pod("cpu", "3"), pod("cpu", "1")), true},
		"a pod was bound":              {"NodeResourcesFit", pod("cpu", "1"), scheduler.Event{Kind: scheduler.AssignedPodAdded, Pod: pod()}, false},
		"a port was freed":             {"NodePorts", web, gone(web), true},
		"another port was freed":       {"NodePorts", web, gone(ports(port("", "TCP", 81))), false},
		"a node came, for ports":       {"NodePorts", web, added(small), true},
		"a node changed, for ports":    {"NodePorts", web, updated(small, big), false},
		"a cordoned node came":         {"NodeUnschedulable", pod(), added(cordoned), false},
		"a node was uncordoned":        {"NodeUnschedulable", pod(), updated(cordoned, node("n")), true},
		"a node was cordoned":          {"NodeUnschedulable", pod(), updated(node("n"), cordoned), false},
		"the pod tolerates cordons":    {"NodeUnschedulable", pod(), changed(scheduler.PodUpdated, pod(), unschedulable), true},
		"the pod tolerates others":     {"NodeUnschedulable", pod(), changed(scheduler.PodUpdated, pod(), tolerating(corev1.Toleration{Key: "x"})), false},
		"a tainted node came":          {"TaintToleration", pod(), added(tainted), false},
		"a taint went":                 {"TaintToleration", pod(), updated(tainted, node("n")), true},
		"a taint came":                 {"TaintToleration", pod(), updated(node("n"), tainted), false},
		"the pod tolerates something":  {"TaintToleration", pod(), changed(scheduler.PodUpdated, pod(), unschedulable), true},
		"a matching node came":         {"NodeAffinity", foo, added(labelled), true},
		"another node came":            {"NodeAffinity", foo, added(small), false},
		"a label came":                 {"NodeAffinity", foo, updated(node("n"), labelled), true},
		"a label went":                 {"NodeAffinity", foo, updated(labelled, node("n")), false},
		"a broken term":                {"NodeAffinity", selecting(label("foo", "Near")), added(small), true},
		"any node came, for its name":  {"NodeName", pod(), added(small), true},
		"the last gate went":           {"SchedulingGates", gated, changed(scheduler.PodUpdated, gated, pod()), true},
		"the labels changed":           {"SchedulingGates", gated, scheduler.Event{Kind: scheduler.PodUpdated, Change: scheduler.PodLabelsChanged}, false},
		"an unknown predicate":         {"Unknown", pod(), added(cordoned), true},
	}
	profile := scheduler.Profile{Plugins: plugins.Default()}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := profile.MayHelp(tt.pod, []string{tt.by}, tt.event); got != tt.want {
				t.Errorf("MayHelp = %v", got)
			}
		})
	}
}
