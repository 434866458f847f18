package plugins_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/groups"
	"github.com/keelson-dev/keelson/scheduler/plugins"
	"github.com/keelson-dev/keelson/scheduler/schedulertest"
)

// street is four nodes: a and b in zone 1, c in zone 2, and d in none.
func street() []*corev1.Node {
	zone := map[string]string{"a": "1", "b": "1", "c": "2"}
	var nodes []*corev1.Node
	for _, name := range []string{"a", "b", "c", "d"} {
		n := node(name)
		n.Labels = map[string]string{corev1.LabelHostname: name}
		if zone[name] != "" {
			n.Labels["zone"] = zone[name]
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// guest returns a pod with labels, as "app=web tier=x".
func guest(name, labels string, change ...func(*corev1.PodSpec)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
	for pair := range strings.FieldsSeq(labels) {
		key, value, _ := strings.Cut(pair, "=")
		metav1.SetMetaDataLabel(&p.ObjectMeta, key, value)
	}
	for _, f := range change {
		f(&p.Spec)
	}
	return p
}

func living(node string) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) { s.NodeName = node }
}

func app(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
}

func term(key string, selector *metav1.LabelSelector, change ...func(*corev1.PodAffinityTerm)) corev1.PodAffinityTerm {
	t := corev1.PodAffinityTerm{TopologyKey: key, LabelSelector: selector}
	for _, f := range change {
		f(&t)
	}
	return t
}

func in(namespaces ...string) func(*corev1.PodAffinityTerm) {
	return func(t *corev1.PodAffinityTerm) { t.Namespaces = namespaces }
}

func inTeam(team string) func(*corev1.PodAffinityTerm) {
	return func(t *corev1.PodAffinityTerm) {
		t.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": team}}
	}
}

func everywhere(t *corev1.PodAffinityTerm) { t.NamespaceSelector = &metav1.LabelSelector{} }

func affine(s *corev1.PodSpec) *corev1.Affinity {
	if s.Affinity == nil {
		s.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}, PodAntiAffinity: &corev1.PodAntiAffinity{}}
	}
	return s.Affinity
}

func near(terms ...corev1.PodAffinityTerm) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) { affine(s).PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution = terms }
}

func apart(terms ...corev1.PodAffinityTerm) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		affine(s).PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution = terms
	}
}

func weighted(weight int32, t corev1.PodAffinityTerm) []corev1.WeightedPodAffinityTerm {
	return []corev1.WeightedPodAffinityTerm{{Weight: weight, PodAffinityTerm: t}}
}

func ratherNear(weight int32, t corev1.PodAffinityTerm) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		affine(s).PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution = weighted(weight, t)
	}
}

func ratherApart(weight int32, t corev1.PodAffinityTerm) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		affine(s).PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution = weighted(weight, t)
	}
}

func spread(skew int32, key string, when corev1.UnsatisfiableConstraintAction, selector *metav1.LabelSelector, change ...func(*corev1.TopologySpreadConstraint)) func(*corev1.PodSpec) {
	c := corev1.TopologySpreadConstraint{MaxSkew: skew, TopologyKey: key, WhenUnsatisfiable: when, LabelSelector: selector}
	for _, f := range change {
		f(&c)
	}
	return func(s *corev1.PodSpec) { s.TopologySpreadConstraints = append(s.TopologySpreadConstraints, c) }
}

// related returns groups with two namespaces of teams, a service of app=web, and a set that controls pods with app=db.
func related() *groups.Groups {
	g := groups.Sources{
		Namespaces: kind[*corev1.Namespace](), Services: kind[*corev1.Service](), ReplicationControllers: kind[*corev1.ReplicationController](),
		ReplicaSets: kind[*appsv1.ReplicaSet](), StatefulSets: kind[*appsv1.StatefulSet](),
	}
	for name, team := range map[string]string{"ns": "red", "other": "blue"} {
		g.Namespaces.Put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": team}}})
	}
	g.Services.Put(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}}})
	return groups.New(g)
}

func kind[T informer.Object]() *informer.Informer[T] {
	return informer.New[T](memory.New[T](), informer.Options{})
}

// elsewhere moves a pod to another namespace.
func elsewhere(p *corev1.Pod) *corev1.Pod {
	p.Namespace = "other"
	return p
}

func going(p *corev1.Pod) *corev1.Pod {
	p.DeletionTimestamp = &metav1.Time{}
	return p
}

const (
	notNear   = "node(s) didn't match pod affinity rules!"
	notApart  = "node(s) didn't match pod anti-affinity rules"
	unwanted  = "node(s) didn't satisfy existing pods anti-affinity rules"
	skewed    = "node(s) didn't match pod topology spread constraints"
	unlabeled = "node(s) didn't match pod topology spread constraints (missing required label)!"
)

// verdicts tells what a profile of a plugin says of each node: nothing, or a reason, with a ! if it is unresolvable.
func verdicts(d scheduler.Decision) map[string]string {
	says := map[string]string{}
	for _, v := range d.Verdicts {
		if v.Refusal != nil {
			says[v.Node] = strings.Join(v.Refusal.Reasons, ", ")
			if v.Refusal.Unresolvable {
				says[v.Node] += "!"
			}
		}
	}
	return says
}

type residents struct {
	pods []*corev1.Pod
	pod  *corev1.Pod
	want map[string]string
}

func test(t *testing.T, p scheduler.Plugin, tests map[string]residents) {
	t.Helper()
	profile := scheduler.Profile{Plugins: []scheduler.Enabled{{Plugin: p}}}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := scheduler.NewSnapshot(street(), tt.pods)
			if diff := cmp.Diff(tt.want, verdicts(profile.Schedule(tt.pod, s)), cmp.Transformer("none", func(m map[string]string) string { return fmt.Sprint(m) })); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// all says the same of some nodes.
func all(reason string, nodes ...string) map[string]string {
	says := map[string]string{}
	for _, n := range nodes {
		says[n] = reason
	}
	return says
}

func TestInterPodAffinity(t *testing.T) {
	web := guest("web", "app=web", living("a"))
	test(t, plugins.InterPodAffinity{Groups: related()}, map[string]residents{
		"nothing":                     {[]*corev1.Pod{web}, guest("p", "app=web"), nil},
		"near":                        {[]*corev1.Pod{web}, guest("p", "", near(term("zone", app("web")))), all(notNear, "c", "d")},
		"near on the node":            {[]*corev1.Pod{web}, guest("p", "", near(term(corev1.LabelHostname, app("web")))), all(notNear, "b", "c", "d")},
		"near two":                    {[]*corev1.Pod{web}, guest("p", "", near(term("zone", app("web")), term(corev1.LabelHostname, app("web")))), all(notNear, "b", "c", "d")},
		"near one pod that is both":   {[]*corev1.Pod{web, guest("db", "app=db", living("b"))}, guest("p", "", near(term("zone", app("web")), term("zone", app("db")))), all(notNear, "a", "b", "c", "d")},
		"near nobody":                 {nil, guest("p", "", near(term("zone", app("web")))), all(notNear, "a", "b", "c", "d")},
		"the first of its kind":       {nil, guest("p", "app=web", near(term("zone", app("web")))), all(notNear, "d")},
		"the second":                  {[]*corev1.Pod{web}, guest("p", "app=web", near(term("zone", app("web")))), all(notNear, "c", "d")},
		"the first in a domain":       {[]*corev1.Pod{guest("web", "app=web", living("d"))}, guest("p", "app=web", near(term("zone", app("web")))), all(notNear, "d")},
		"nil selects nobody":          {[]*corev1.Pod{web}, guest("p", "", near(term("zone", nil))), all(notNear, "a", "b", "c", "d")},
		"empty selects all":           {[]*corev1.Pod{web}, guest("p", "", near(term("zone", &metav1.LabelSelector{}))), all(notNear, "c", "d")},
		"another namespace":           {[]*corev1.Pod{elsewhere(guest("x", "app=web", living("a")))}, guest("p", "", near(term("zone", app("web")))), all(notNear, "a", "b", "c", "d")},
		"named namespaces":            {[]*corev1.Pod{elsewhere(guest("x", "app=web", living("a")))}, guest("p", "", near(term("zone", app("web"), in("other")))), all(notNear, "c", "d")},
		"named, not its own":          {[]*corev1.Pod{web}, guest("p", "", near(term("zone", app("web"), in("other")))), all(notNear, "a", "b", "c", "d")},
		"selected namespaces":         {[]*corev1.Pod{elsewhere(guest("x", "app=web", living("a")))}, guest("p", "", near(term("zone", app("web"), inTeam("blue")))), all(notNear, "c", "d")},
		"selected, not its own":       {[]*corev1.Pod{web}, guest("p", "", near(term("zone", app("web"), inTeam("blue")))), all(notNear, "a", "b", "c", "d")},
		"all namespaces":              {[]*corev1.Pod{elsewhere(guest("x", "app=web", living("a")))}, guest("p", "", near(term("zone", app("web"), everywhere))), all(notNear, "c", "d")},
		"apart":                       {[]*corev1.Pod{web}, guest("p", "", apart(term("zone", app("web")))), all(notApart, "a", "b")},
		"apart on the node":           {[]*corev1.Pod{web}, guest("p", "", apart(term(corev1.LabelHostname, app("web")))), all(notApart, "a")},
		"apart from either":           {[]*corev1.Pod{web, guest("db", "app=db", living("c"))}, guest("p", "", apart(term("zone", app("web")), term("zone", app("db")))), all(notApart, "a", "b", "c")},
		"apart from one in no domain": {[]*corev1.Pod{guest("x", "app=web", living("d"))}, guest("p", "", apart(term("zone", app("web")))), nil},
		"near comes first":            {[]*corev1.Pod{web}, guest("p", "", near(term("zone", app("db"))), apart(term("zone", app("web")))), all(notNear, "a", "b", "c", "d")},
		"others are apart":            {[]*corev1.Pod{guest("x", "", living("a"), apart(term("zone", app("web"))))}, guest("p", "app=web"), all(unwanted, "a", "b")},
		"others, of other pods":       {[]*corev1.Pod{guest("x", "", living("a"), apart(term("zone", app("db"))))}, guest("p", "app=web"), nil},
		"others, in no domain":        {[]*corev1.Pod{guest("x", "", living("d"), apart(term("zone", app("web"))))}, guest("p", "app=web"), nil},
		"others, by team":             {[]*corev1.Pod{elsewhere(guest("x", "", living("a"), apart(term("zone", app("web"), inTeam("red")))))}, guest("p", "app=web"), all(unwanted, "a", "b")},
		"others, of another team":     {[]*corev1.Pod{elsewhere(guest("x", "", living("a"), apart(term("zone", app("web"), inTeam("blue")))))}, guest("p", "app=web"), nil},
		"both sides": {
			[]*corev1.Pod{guest("x", "app=web", living("a"), apart(term(corev1.LabelHostname, app("web")))), guest("y", "", living("c"), apart(term("zone", app("web"))))},
			guest("p", "app=web", apart(term(corev1.LabelHostname, app("web")))), map[string]string{"a": notApart, "c": unwanted},
		},
		"bad selector": {nil, guest("p", "", near(term("zone", &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}))),
			all(`parsing pod: requiredAffinityTerms: "Near" is not a valid label selector operator!`, "a", "b", "c", "d")},
	})
	test(t, plugins.InterPodAffinity{}, map[string]residents{
		"namespaces unknown": {nil, guest("p", "", near(term("zone", app("web"), inTeam("red")))),
			all("pod affinity selects namespaces by their labels, which this scheduler does not know!", "a", "b", "c", "d")},
		"unknown, apart": {nil, guest("p", "", apart(term("zone", app("web"), inTeam("red")))),
			all("pod affinity selects namespaces by their labels, which this scheduler does not know!", "a", "b", "c", "d")},
		"all need not be known": {[]*corev1.Pod{web}, guest("p", "", apart(term("zone", app("web"), everywhere))), all(notApart, "a", "b")},
	})
}

func TestPodTopologySpread(t *testing.T) {
	const hard, soft = corev1.DoNotSchedule, corev1.ScheduleAnyway
	one, two, three := guest("1", "app=web", living("a")), guest("2", "app=web", living("b")), guest("3", "app=web", living("c"))
	domains := func(n int32) func(*corev1.TopologySpreadConstraint) {
		return func(c *corev1.TopologySpreadConstraint) { c.MinDomains = &n }
	}
	affinity := func(p corev1.NodeInclusionPolicy) func(*corev1.TopologySpreadConstraint) {
		return func(c *corev1.TopologySpreadConstraint) { c.NodeAffinityPolicy = &p }
	}
	byKeys := func(keys ...string) func(*corev1.TopologySpreadConstraint) {
		return func(c *corev1.TopologySpreadConstraint) { c.MatchLabelKeys = keys }
	}
	onA := func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{corev1.LabelHostname: "a"} }
	test(t, plugins.PodTopologySpread{}, map[string]residents{
		"nothing":            {[]*corev1.Pod{one}, guest("p", "app=web"), nil},
		"wishes":             {[]*corev1.Pod{one}, guest("p", "app=web", spread(1, "zone", soft, app("web"))), nil},
		"by zone":            {[]*corev1.Pod{one}, guest("p", "app=web", spread(1, "zone", hard, app("web"))), map[string]string{"a": skewed, "b": skewed, "d": unlabeled}},
		"even":               {[]*corev1.Pod{one, three}, guest("p", "app=web", spread(1, "zone", hard, app("web"))), all(unlabeled, "d")},
		"more skew":          {[]*corev1.Pod{one}, guest("p", "app=web", spread(2, "zone", hard, app("web"))), all(unlabeled, "d")},
		"too much":           {[]*corev1.Pod{one, two}, guest("p", "app=web", spread(2, "zone", hard, app("web"))), map[string]string{"a": skewed, "b": skewed, "d": unlabeled}},
		"not itself":         {[]*corev1.Pod{one}, guest("p", "", spread(1, "zone", hard, app("web"))), all(unlabeled, "d")},
		"by node":            {[]*corev1.Pod{one, three}, guest("p", "app=web", spread(1, corev1.LabelHostname, hard, app("web"))), all(skewed, "a", "c")},
		"two constraints":    {[]*corev1.Pod{one}, guest("p", "app=web", spread(1, corev1.LabelHostname, hard, app("web")), spread(1, "zone", hard, app("web"))), map[string]string{"a": skewed, "b": skewed, "d": unlabeled}},
		"another namespace":  {[]*corev1.Pod{elsewhere(guest("x", "app=web", living("a")))}, guest("p", "app=web", spread(1, "zone", hard, app("web"))), all(unlabeled, "d")},
		"one that goes":      {[]*corev1.Pod{going(guest("x", "app=web", living("a")))}, guest("p", "app=web", spread(1, "zone", hard, app("web"))), all(unlabeled, "d")},
		"few domains":        {[]*corev1.Pod{one, three}, guest("p", "app=web", spread(1, "zone", hard, app("web"), domains(3))), map[string]string{"a": skewed, "b": skewed, "c": skewed, "d": unlabeled}},
		"enough domains":     {[]*corev1.Pod{one, three}, guest("p", "app=web", spread(1, "zone", hard, app("web"), domains(2))), all(unlabeled, "d")},
		"nil selects none":   {[]*corev1.Pod{one}, guest("p", "app=web", spread(1, "zone", hard, nil)), all(unlabeled, "d")},
		"empty counts none":  {[]*corev1.Pod{one}, guest("p", "app=web", spread(1, "zone", hard, &metav1.LabelSelector{})), all(unlabeled, "d")},
		"selected nodes":     {[]*corev1.Pod{one}, guest("p", "app=web", onA, spread(1, "zone", hard, app("web"))), all(unlabeled, "d")},
		"whatever selected":  {[]*corev1.Pod{one}, guest("p", "app=web", onA, spread(1, "zone", hard, app("web"), affinity(corev1.NodeInclusionPolicyIgnore))), map[string]string{"a": skewed, "b": skewed, "d": unlabeled}},
		"by version":         {[]*corev1.Pod{one}, guest("p", "app=web version=2", spread(1, "zone", hard, app("web"), byKeys("version"))), all(unlabeled, "d")},
		"by a missing label": {[]*corev1.Pod{one}, guest("p", "app=web", spread(1, "zone", hard, app("web"), byKeys("version"))), map[string]string{"a": skewed, "b": skewed, "d": unlabeled}},
	})
	d := (&scheduler.Profile{Plugins: []scheduler.Enabled{{Plugin: plugins.PodTopologySpread{}}}}).Schedule(
		guest("p", "", spread(1, "zone", hard, &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}})),
		scheduler.NewSnapshot(street(), nil))
	const want = `running PreFilter plugin "PodTopologySpread": get constraints from pod: obtaining pod's hard topology spread constraints: "Near" is not a valid label selector operator`
	if d.Err == nil || d.Err.Error() != want {
		t.Errorf("got %v", d.Err)
	}
	list := plugins.PodTopologySpread{Groups: related(), Defaults: []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: hard}}}
	test(t, list, map[string]residents{
		"of the service":   {[]*corev1.Pod{one}, guest("p", "app=web"), map[string]string{"a": skewed, "b": skewed, "d": unlabeled}},
		"of no service":    {[]*corev1.Pod{one}, guest("p", "app=db"), nil},
		"constraints, own": {[]*corev1.Pod{one}, guest("p", "app=web", spread(1, "zone", soft, app("web"))), nil},
	})
}

// Nodes with a taint that the pod does not tolerate do not count if the constraint says so.
func TestPodTopologySpreadByTaints(t *testing.T) {
	nodes := street()
	nodes[2].Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
	profile := scheduler.Profile{Plugins: []scheduler.Enabled{{Plugin: plugins.PodTopologySpread{}}}}
	s := scheduler.NewSnapshot(nodes, []*corev1.Pod{guest("1", "app=web", living("a"))})
	for policy, want := range map[corev1.NodeInclusionPolicy]string{corev1.NodeInclusionPolicyHonor: "", corev1.NodeInclusionPolicyIgnore: skewed} {
		p := guest("p", "app=web", spread(1, "zone", corev1.DoNotSchedule, app("web"), func(c *corev1.TopologySpreadConstraint) { c.NodeTaintsPolicy = &policy }))
		if got := verdicts(profile.Schedule(p, s))["a"]; got != want {
			t.Errorf("%s: %q", policy, got)
		}
	}
}

// scored returns the raw and normalised scores of nodes.
func scored(p scheduler.Plugin, pod *corev1.Pod, pods []*corev1.Pod) string {
	profile := scheduler.Profile{Plugins: []scheduler.Enabled{{Plugin: p, Weight: 1, PriorityOnly: true}}}
	var all []string
	for _, v := range profile.Schedule(pod, scheduler.NewSnapshot(street(), pods)).Verdicts {
		s := v.Scores[0]
		all = append(all, fmt.Sprintf("%s:%d/%d", v.Node, s.Raw, s.Normalized))
		if s.Skipped {
			return "skipped"
		}
	}
	return strings.Join(all, " ")
}

func TestScoreInterPodAffinity(t *testing.T) {
	web := guest("web", "app=web", living("a"))
	hard := guest("x", "app=db", living("c"), near(term("zone", app("web"))))
	wish := guest("y", "app=db", living("c"), ratherNear(5, term("zone", app("web"))))
	hate := guest("z", "app=db", living("c"), ratherApart(5, term("zone", app("web"))))
	for name, tt := range map[string]struct {
		plugin plugins.InterPodAffinity
		pods   []*corev1.Pod
		pod    *corev1.Pod
		want   string
	}{
		"nothing":                {pod: guest("p", "app=web"), pods: []*corev1.Pod{web}, want: "skipped"},
		"nobody there":           {pod: guest("p", "", ratherNear(3, term("zone", app("web")))), want: "skipped"},
		"near":                   {pod: guest("p", "", ratherNear(3, term("zone", app("web")))), pods: []*corev1.Pod{web}, want: "a:3/100 b:3/100 c:0/0 d:0/0"},
		"near many":              {pod: guest("p", "", ratherNear(3, term("zone", app("web")))), pods: []*corev1.Pod{web, guest("2", "app=web", living("b")), guest("3", "app=web", living("c"))}, want: "a:6/100 b:6/100 c:3/50 d:0/0"},
		"apart":                  {pod: guest("p", "", ratherApart(3, term("zone", app("web")))), pods: []*corev1.Pod{web}, want: "a:-3/0 b:-3/0 c:0/100 d:0/100"},
		"both":                   {pod: guest("p", "", ratherApart(3, term("zone", app("web"))), ratherNear(4, term(corev1.LabelHostname, app("web")))), pods: []*corev1.Pod{web}, want: "a:1/100 b:-3/0 c:0/75 d:0/75"},
		"others require":         {pod: guest("p", "app=web"), pods: []*corev1.Pod{hard}, want: "a:0/0 b:0/0 c:1/100 d:0/0"},
		"others require more":    {plugin: plugins.InterPodAffinity{HardPodAffinityWeight: ptr.To[int32](9)}, pod: guest("p", "app=web"), pods: []*corev1.Pod{hard}, want: "a:0/0 b:0/0 c:9/100 d:0/0"},
		"others require in vain": {plugin: plugins.InterPodAffinity{HardPodAffinityWeight: ptr.To[int32](0)}, pod: guest("p", "app=web"), pods: []*corev1.Pod{hard}, want: "skipped"},
		"others wish":            {pod: guest("p", "app=web"), pods: []*corev1.Pod{wish}, want: "a:0/0 b:0/0 c:5/100 d:0/0"},
		"others hate":            {pod: guest("p", "app=web"), pods: []*corev1.Pod{hate}, want: "a:0/100 b:0/100 c:-5/0 d:0/100"},
		"others in vain":         {plugin: plugins.InterPodAffinity{IgnorePreferredTermsOfExistingPods: true}, pod: guest("p", "app=web"), pods: []*corev1.Pod{wish}, want: "skipped"},
		"others, and own": {plugin: plugins.InterPodAffinity{IgnorePreferredTermsOfExistingPods: true}, pod: guest("p", "app=web", ratherNear(3, term("zone", app("web")))),
			pods: []*corev1.Pod{wish}, want: "a:0/0 b:0/0 c:5/100 d:0/0"},
	} {
		if got := scored(tt.plugin, tt.pod, tt.pods); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

func TestScorePodTopologySpread(t *testing.T) {
	const soft = corev1.ScheduleAnyway
	one, two := guest("1", "app=web", living("a")), guest("2", "app=web", living("b"))
	for name, tt := range map[string]struct {
		plugin plugins.PodTopologySpread
		pods   []*corev1.Pod
		pod    *corev1.Pod
		want   string
	}{
		"nothing":        {pod: guest("p", "app=web"), pods: []*corev1.Pod{one}, want: "skipped"},
		"demands":        {pod: guest("p", "app=web", spread(1, "zone", corev1.DoNotSchedule, app("web"))), pods: []*corev1.Pod{one}, want: "skipped"},
		"by zone":        {pod: guest("p", "app=web", spread(1, "zone", soft, app("web"))), pods: []*corev1.Pod{one, two}, want: "a:3/0 b:3/0 c:0/100 d:-1/0"},
		"with more skew": {pod: guest("p", "app=web", spread(3, "zone", soft, app("web"))), pods: []*corev1.Pod{one, two}, want: "a:5/40 b:5/40 c:2/100 d:-1/0"},
		"by node":        {pod: guest("p", "app=web", spread(1, corev1.LabelHostname, soft, app("web"))), pods: []*corev1.Pod{one, two}, want: "a:2/0 b:2/0 c:0/100 d:0/100"},
		"no pods":        {pod: guest("p", "app=web", spread(1, "zone", soft, app("web"))), want: "a:0/100 b:0/100 c:0/100 d:-1/0"},
		"both":           {pod: guest("p", "app=web", spread(1, "zone", soft, app("web")), spread(1, corev1.LabelHostname, soft, app("web"))), pods: []*corev1.Pod{one}, want: "a:3/0 b:1/66 c:0/100 d:-1/0"},
		"by default":     {plugin: plugins.PodTopologySpread{Groups: related()}, pod: guest("p", "app=web"), pods: []*corev1.Pod{one}, want: "a:4/50 b:2/100 c:2/100 d:2/100"},
		"not by default": {plugin: plugins.PodTopologySpread{Groups: related(), Defaults: []corev1.TopologySpreadConstraint{}}, pod: guest("p", "app=web"), pods: []*corev1.Pod{one}, want: "skipped"},
		"by another default": {plugin: plugins.PodTopologySpread{Groups: related(), Defaults: []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: soft}}},
			pod: guest("p", "app=web"), pods: []*corev1.Pod{one, two}, want: "a:3/0 b:3/0 c:0/100 d:-1/0"},
	} {
		if got := scored(tt.plugin, tt.pod, tt.pods); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// What a node's pods were and are, with those that would go and come, is judged by the pods elsewhere.
func TestInterPodAffinityOfChangedNodes(t *testing.T) {
	const (
		alone  = "node(s) didn't match pod affinity rules"
		apart_ = "node(s) didn't match pod anti-affinity rules"
		hated  = "node(s) didn't satisfy existing pods anti-affinity rules"
	)
	at := func(node string, labels string, change ...func(*corev1.PodSpec)) *corev1.Pod {
		return guest(node+labels, labels, append(change, living(node))...)
	}
	nearWeb, web := near(term("zone", app("web"))), "app=web"
	jealousOf := func(t corev1.PodAffinityTerm) *corev1.Pod { return elsewhere(guest("j", "", apart(t), living("c"))) }
	byHost := guest("h", "", apart(term(corev1.LabelHostname, app("web"))), living("a")) // so that others' terms are looked at
	for name, tt := range map[string]struct {
		pod  *corev1.Pod
		pods []*corev1.Pod // before
		node string
		is   []*corev1.Pod // on the node afterwards
		want string
	}{
		"the last goes, and it is one itself":  {guest("p", web, nearWeb), []*corev1.Pod{at("c", web)}, "c", nil, ""},
		"the last goes":                        {guest("p", "app=db", nearWeb), []*corev1.Pod{at("c", web)}, "c", nil, alone},
		"the last goes there":                  {guest("p", web, nearWeb), []*corev1.Pod{at("c", web), at("a", web)}, "c", nil, alone},
		"one comes":                            {guest("p", "app=db", nearWeb), []*corev1.Pod{at("a", web)}, "c", []*corev1.Pod{at("c", web)}, ""},
		"another comes":                        {guest("p", "app=db", nearWeb), []*corev1.Pod{at("a", web)}, "c", []*corev1.Pod{at("c", "app=x")}, alone},
		"one comes, where there is no zone":    {guest("p", "app=db", nearWeb), []*corev1.Pod{at("a", web)}, "d", []*corev1.Pod{at("d", web)}, alone},
		"a second goes":                        {guest("p", "app=db", nearWeb), []*corev1.Pod{at("a", web), at("b", web)}, "b", nil, ""},
		"an unwanted one goes":                 {guest("p", "", apart(term("zone", app("web")))), []*corev1.Pod{at("c", web)}, "c", nil, ""},
		"an unwanted one comes":                {guest("p", "", apart(term("zone", app("web")))), []*corev1.Pod{at("a", web)}, "c", []*corev1.Pod{at("c", web)}, apart_},
		"one of two unwanted goes":             {guest("p", "", apart(term("zone", app("web")))), []*corev1.Pod{at("a", web), at("b", web)}, "b", nil, apart_},
		"an unwanted one comes without a zone": {guest("p", "", apart(term("zone", app("web")))), []*corev1.Pod{at("a", web)}, "d", []*corev1.Pod{at("d", web)}, ""},
		"one goes that does not want it":       {guest("p", web), []*corev1.Pod{at("c", "", apart(term("zone", app("web"))))}, "c", nil, ""},
		"one of two goes that do not want it": {guest("p", web), []*corev1.Pod{at("a", "", apart(term("zone", app("web")))), at("b", "", apart(term("zone", app("web"))))},
			"b", nil, hated},
		"one comes that does not want it":   {guest("p", web), []*corev1.Pod{byHost}, "c", []*corev1.Pod{at("c", "", apart(term("zone", app("web"))))}, hated},
		"one comes that does not want dbs":  {guest("p", web), []*corev1.Pod{byHost}, "c", []*corev1.Pod{at("c", "", apart(term("zone", app("db"))))}, ""},
		"one comes without a zone":          {guest("p", web), []*corev1.Pod{byHost}, "d", []*corev1.Pod{at("d", "", apart(term("zone", app("web"))))}, ""},
		"one comes that wants no red team":  {guest("p", web), []*corev1.Pod{byHost}, "c", []*corev1.Pod{jealousOf(term("zone", app("web"), inTeam("red")))}, hated},
		"one comes that wants no blue team": {guest("p", web), []*corev1.Pod{byHost}, "c", []*corev1.Pod{jealousOf(term("zone", app("web"), inTeam("blue")))}, ""},
	} {
		s := scheduler.NewSnapshot(street(), tt.pods)
		prepared, err := plugins.InterPodAffinity{Groups: related()}.Prepare(tt.pod, s)
		if err != nil || prepared.CheckChanged == nil {
			t.Fatalf("%s: %+v, %v", name, prepared, err)
		}
		was := s.Node(tt.node)
		got := ""
		if r := prepared.CheckChanged(was, scheduler.NewNodeInfo(was.Node, tt.is...)); r != nil {
			got = strings.Join(r.Reasons, ", ")
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// By default pods are spread over nodes and zones, also where some nodes are in no zone.
func TestScoreByDefault(t *testing.T) {
	nodes := street()
	for _, n := range nodes {
		if zone := n.Labels["zone"]; zone != "" {
			n.Labels[corev1.LabelTopologyZone] = zone
		}
	}
	web := func(name, node string) *corev1.Pod { return guest(name, "app=web", living(node)) }
	profile := scheduler.Profile{Plugins: []scheduler.Enabled{{Plugin: plugins.PodTopologySpread{Groups: related()}, Weight: 1, PriorityOnly: true}}}
	d := profile.Schedule(guest("p", "app=web"), scheduler.NewSnapshot(nodes, []*corev1.Pod{web("1", "b"), web("2", "b"), web("3", "c")}))
	got := ""
	for _, v := range d.Verdicts {
		got += fmt.Sprintf("%s:%d ", v.Node, v.Scores[0].Raw)
	}
	// Each is 2 for a skew of 3 and ln(4+2) for a pod on the node, and in a zone 4 for a skew of 5 and ln(3+2) for a pod there.
	if want := "a:9 b:13 c:9 d:2 "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// What the plugins keep from pod to pod equals a fresh count after every change of the cluster.
func TestCachedCountsAreFresh(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		profile := scheduler.Profile{Plugins: []scheduler.Enabled{
			{Plugin: plugins.PodTopologySpread{Groups: related()}, Weight: 2}, {Plugin: plugins.InterPodAffinity{Groups: related()}, Weight: 3},
		}}
		planner := scheduler.NewPlanner(&profile)
		var s scheduler.State
		nodes, bound := map[string]*corev1.Node{}, map[types.UID]*corev1.Pod{}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			n, p := schedulertest.RandomNode(r, r.IntN(6)), schedulertest.RandomPod(r, r.IntN(20))
			old := bound[p.UID]
			switch r.IntN(6) {
			case 0:
				s.SetNode(n)
				nodes[n.Name] = n
			case 1:
				s.RemoveNode(n.Name)
				delete(nodes, n.Name)
			case 2, 3, 4:
				p.Spec.NodeName = n.Name
				if old != nil {
					p.Spec.NodeName = old.Spec.NodeName
				}
				s.SetPod(p)
				bound[p.UID] = p
			case 5:
				if old != nil {
					s.RemovePod(old)
					delete(bound, p.UID)
				}
			}
			var allNodes []*corev1.Node
			var pods []*corev1.Pod
			for _, n := range nodes {
				allNodes = append(allNodes, n)
			}
			for _, p := range bound {
				pods = append(pods, p)
			}
			fresh := scheduler.NewSnapshot(allNodes, pods)
			for range 3 {
				p := schedulertest.RandomPod(r, 100+r.IntN(10))
				want, got := profile.Schedule(p, fresh), planner.Schedule(p, s.Snapshot())
				if diff := cmp.Diff(want.String(), got.String()); diff != "" {
					t.Fatal(diff)
				}
			}
		}
	})
}

// Pods of more kinds than the plugins keep are counted all the same.
func TestCachedCountsOfManyKinds(t *testing.T) {
	profile := scheduler.Profile{Plugins: []scheduler.Enabled{{Plugin: plugins.PodTopologySpread{}}, {Plugin: plugins.InterPodAffinity{}}}}
	planner := scheduler.NewPlanner(&profile)
	state := scheduler.NewSnapshot(street(), nil).State()
	for i := range 3 {
		for k := range 150 {
			name := fmt.Sprint(k)
			p := guest(fmt.Sprint(k, "-", i), "app="+name, spread(1, "zone", corev1.DoNotSchedule, app(name)), apart(term(corev1.LabelHostname, app(name))))
			want, got := profile.Schedule(p, state.Snapshot()), planner.Schedule(p, state.Snapshot())
			if want.String() != got.String() {
				t.Fatalf("the planner says\n%v\ninstead of\n%v", got, want)
			}
			if got.Node != "" {
				p.Spec.NodeName = got.Node
				state.SetPod(p)
			}
		}
	}
}

func TestSpreadingWithAnotherPod(t *testing.T) {
	web := func(name, node string) *corev1.Pod { return guest(name, "app=web", living(node)) }
	s := scheduler.NewSnapshot(street(), []*corev1.Pod{web("1", "a"), web("2", "c")})
	prepared, err := plugins.PodTopologySpread{}.Prepare(guest("p", "app=web", spread(1, corev1.LabelHostname, corev1.DoNotSchedule, app("web"))), s)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"b", "d"} {
		was := s.Node(name)
		if got := prepared.CheckChanged(was, scheduler.NewNodeInfo(was.Node, web("3", name))).Error(); got != skewed {
			t.Errorf("%s: %q", name, got)
		}
	}
}
