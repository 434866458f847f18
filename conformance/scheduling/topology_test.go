package scheduling_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/scheduler/plugins"
)

// TestInterPodAffinity compares the plugin in clusters that change between decisions.
func TestInterPodAffinity(t *testing.T) {
	compare(t, 2, "InterPodAffinity")
}

// TestPodTopologySpread compares the plugin in clusters that change between decisions.
func TestPodTopologySpread(t *testing.T) {
	compare(t, 3, "PodTopologySpread")
}

// TestTopology compares both plugins together.
func TestTopology(t *testing.T) {
	compare(t, 4, "PodTopologySpread", "InterPodAffinity")
}

// compare has both sides decide about pods, with the named plugins, and changes the cluster after each.
func compare(t *testing.T, stream uint64, names ...string) {
	seen := tally{}
	each(t, func(t *testing.T, seed uint64) {
		g := &generator{Rand: rand.New(rand.NewPCG(seed, stream))}
		o := g.topology()
		w := newWorld(t, o, names...)
		for _, pod := range w.pending {
			feasible, state := w.decide(pod)
			seen.note(w.profile.Schedule(pod, w.state.Snapshot()))
			w.decideChanged(g, pod)
			if len(feasible) > 0 && g.chance(0.8) {
				w.place(pod, pick(g, feasible...), state, true)
			}
			for g.chance(0.4) {
				w.change(g)
			}
		}
	})
	seen.log(t)
}

// arguments sets those of both sides' plugins.
func (g *generator) arguments(o *objects) {
	affinity := plugins.InterPodAffinity{HardPodAffinityWeight: pick(g, nil, ptr.To[int32](0), ptr.To[int32](7)), IgnorePreferredTermsOfExistingPods: g.chance(0.2)}
	o.affinity = affinity
	o.affinityArgs = &config.InterPodAffinityArgs{
		HardPodAffinityWeight: ptr.Deref(affinity.HardPodAffinityWeight, 1), IgnorePreferredTermsOfExistingPods: affinity.IgnorePreferredTermsOfExistingPods,
	}
	o.spreadArgs = &config.PodTopologySpreadArgs{DefaultingType: config.SystemDefaulting}
	if g.chance(0.4) {
		o.spread.Defaults = []corev1.TopologySpreadConstraint{}
		for _, c := range g.spreads(g.IntN(3)) {
			c.LabelSelector = nil
			if slices.ContainsFunc(o.spread.Defaults, func(other corev1.TopologySpreadConstraint) bool {
				return other.TopologyKey == c.TopologyKey && other.WhenUnsatisfiable == c.WhenUnsatisfiable
			}) {
				continue
			}
			o.spread.Defaults = append(o.spread.Defaults, c)
		}
		o.spreadArgs = &config.PodTopologySpreadArgs{DefaultingType: config.ListDefaulting, DefaultConstraints: o.spread.Defaults}
	}
}

func (g *generator) topology() objects {
	var o objects
	for i := range 1 + g.IntN(9) {
		o.nodes = append(o.nodes, g.place(i))
	}
	for _, name := range []string{"default", "other", "third"} {
		if g.chance(0.9) {
			o.namespaces = append(o.namespaces, g.namespace(name))
		}
	}
	for i := range g.IntN(4) {
		o.services = append(o.services, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: g.ns(), Name: fmt.Sprintf("s-%d", i)},
			Spec:       corev1.ServiceSpec{Selector: pick(g, nil, map[string]string{}, map[string]string{"app": pick(g, "a", "b")}, map[string]string{"app": "a", "tier": "x"})},
		})
	}
	for i := range 3 {
		meta := metav1.ObjectMeta{Namespace: g.ns(), Name: fmt.Sprintf("owner-%d", i)}
		switch g.IntN(3) {
		case 0:
			o.controllers = append(o.controllers, &corev1.ReplicationController{ObjectMeta: meta, Spec: corev1.ReplicationControllerSpec{Selector: map[string]string{"app": pick(g, "a", "b")}}})
		case 1:
			o.sets = append(o.sets, &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: g.selector()}})
		case 2:
			o.stateful = append(o.stateful, &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: g.selector()}})
		}
	}
	for i := range g.IntN(25) {
		p := g.social(fmt.Sprintf("bound-%d", i))
		if len(o.nodes) > 0 {
			p.Spec.NodeName = pick(g, o.nodes...).Name
			o.bound = append(o.bound, p)
		}
	}
	for i := range 5 + g.IntN(15) {
		p := g.social(fmt.Sprintf("pod-%d", i))
		o.pending = append(o.pending, p)
		if g.chance(0.5) { // the next of its kind
			twin := p.DeepCopy()
			twin.Name += "-twin"
			twin.UID = types.UID(twin.Name)
			o.pending = append(o.pending, twin)
		}
	}
	g.arguments(&o)
	return o
}

func keys() []string {
	return []string{corev1.LabelHostname, corev1.LabelHostname, corev1.LabelTopologyZone, corev1.LabelTopologyZone, corev1.LabelTopologyRegion, "rack"}
}

// place is a node with labels of topologies.
func (g *generator) place(i int) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i), Labels: map[string]string{}}}
	for key, values := range map[string][]string{
		corev1.LabelHostname:       {n.Name, n.Name, n.Name, n.Name, n.Name, n.Name, "shared", ""},
		corev1.LabelTopologyZone:   {"z1", "z2", "z3", "z1", "z2", "z3", ""},
		corev1.LabelTopologyRegion: {"r1", "r2"},
		"rack":                     {"a", "b", "c"},
		"disk":                     {"ssd", "hdd"},
	} {
		value := pick(g, values...)
		if g.chance(0.85) {
			n.Labels[key] = value
		}
	}
	if g.chance(0.25) {
		n.Spec.Taints = []corev1.Taint{{Key: "spot", Effect: pick(g, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, corev1.TaintEffectPreferNoSchedule)}}
	}
	n.Spec.Unschedulable = g.chance(0.05)
	return n
}

func (g *generator) namespace(name string) *corev1.Namespace {
	g.sizes++
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": pick(g, "red", "blue")}, ResourceVersion: fmt.Sprint(g.sizes)}}
	if g.chance(0.1) {
		ns.Labels = nil
	}
	return ns
}

func (g *generator) ns() string {
	return pick(g, "default", "default", "default", "other", "third", "nowhere")
}

func (g *generator) labels() map[string]string {
	l := map[string]string{}
	if g.chance(0.9) {
		l["app"] = pick(g, "a", "b")
	}
	if g.chance(0.5) {
		l["tier"] = pick(g, "x", "y")
	}
	if g.chance(0.3) {
		l["version"] = pick(g, "1", "2")
	}
	if len(l) == 0 && g.chance(0.5) {
		return nil
	}
	return l
}

func (g *generator) selector() *metav1.LabelSelector {
	switch g.IntN(40) {
	case 0, 1:
		return nil
	case 2, 3:
		return &metav1.LabelSelector{}
	case 4:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Near"}}}
	case 5, 6, 7, 8:
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": pick(g, "a", "b"), "tier": pick(g, "x", "y")}}
	case 9, 10, 11:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: pick(g, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist)}}}
	case 12, 13:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{pick(g, "a", "b", "c")}}}}
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": pick(g, "a", "b")}}
}

func (g *generator) affinityTerms(n int) (terms []corev1.PodAffinityTerm) {
	for range n {
		t := corev1.PodAffinityTerm{LabelSelector: g.selector(), TopologyKey: pick(g, keys()...)}
		switch g.IntN(8) {
		case 0:
			t.Namespaces = []string{g.ns(), g.ns()}
		case 1:
			t.NamespaceSelector = &metav1.LabelSelector{}
		case 2:
			t.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": pick(g, "red", "blue")}}
		case 3:
			t.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"red"}}}}
			if g.chance(0.5) {
				t.Namespaces = []string{g.ns()}
			}
		}
		terms = append(terms, t)
	}
	return terms
}

func (g *generator) weightedTerms(n int) (terms []corev1.WeightedPodAffinityTerm) {
	for _, t := range g.affinityTerms(n) {
		terms = append(terms, corev1.WeightedPodAffinityTerm{Weight: pick[int32](g, 1, 2, 50, 100), PodAffinityTerm: t})
	}
	return terms
}

func (g *generator) few() int { return pick(g, 0, 0, 0, 1, 1, 2) }

func (g *generator) spreads(n int) (all []corev1.TopologySpreadConstraint) {
	for range n {
		c := corev1.TopologySpreadConstraint{
			MaxSkew: pick[int32](g, 1, 1, 2, 3), TopologyKey: pick(g, keys()...), LabelSelector: g.selector(),
			WhenUnsatisfiable:  pick(g, corev1.DoNotSchedule, corev1.ScheduleAnyway),
			NodeAffinityPolicy: pick(g, nil, nil, ptr.To(corev1.NodeInclusionPolicyHonor), ptr.To(corev1.NodeInclusionPolicyIgnore)),
			NodeTaintsPolicy:   pick(g, nil, nil, ptr.To(corev1.NodeInclusionPolicyHonor), ptr.To(corev1.NodeInclusionPolicyIgnore)),
		}
		if g.chance(0.2) && c.WhenUnsatisfiable == corev1.DoNotSchedule {
			c.MinDomains = ptr.To(1 + g.Int32N(5))
		}
		if g.chance(0.2) {
			c.MatchLabelKeys = pick(g, []string{"version"}, []string{"version", "tier"}, []string{"absent"})
		}
		all = append(all, c)
	}
	return all
}

// social is a pod with everything that these plugins read.
func (g *generator) social(name string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: g.ns(), Name: name, UID: types.UID(name), Labels: g.labels()}}
	if g.chance(0.5) {
		p.Spec.Affinity = &corev1.Affinity{
			PodAffinity:     &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: g.affinityTerms(g.few()), PreferredDuringSchedulingIgnoredDuringExecution: g.weightedTerms(g.few())},
			PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: g.affinityTerms(g.few()), PreferredDuringSchedulingIgnoredDuringExecution: g.weightedTerms(g.few())},
		}
	}
	if g.chance(0.5) {
		p.Spec.TopologySpreadConstraints = g.spreads(1 + g.few())
	}
	if g.chance(0.2) {
		p.Spec.NodeSelector = map[string]string{"disk": pick(g, "ssd", "hdd")}
	}
	if g.chance(0.1) {
		if p.Spec.Affinity == nil {
			p.Spec.Affinity = &corev1.Affinity{}
		}
		p.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{g.term()}}}
	}
	if g.chance(0.3) {
		p.Spec.Tolerations = []corev1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists, Effect: pick(g, "", corev1.TaintEffectNoSchedule)}}
	}
	if g.chance(0.3) {
		apps := appsv1.SchemeGroupVersion.String()
		p.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: pick(g, apps, apps, "v1", "a/b/c"), Kind: pick(g, "ReplicaSet", "StatefulSet", "ReplicationController", "Other"),
			Name: g.name("owner", 3), Controller: ptr.To(g.chance(0.9)),
		}}
	}
	if g.chance(0.1) {
		p.DeletionTimestamp, p.Finalizers = &metav1.Time{}, []string{"f"}
	}
	return p
}

// change changes the cluster on both sides.
func (w *world) change(g *generator) {
	switch g.IntN(7) {
	case 0, 1: // a pod goes
		if len(w.bound) > 0 {
			i := g.IntN(len(w.bound))
			w.state.RemovePod(w.bound[i])
			w.bound = append(w.bound[:i:i], w.bound[i+1:]...)
		}
	case 2: // a pod changes
		if len(w.bound) > 0 {
			i := g.IntN(len(w.bound))
			p := w.bound[i].DeepCopy()
			p.Labels = g.labels()
			if g.chance(0.2) {
				p.DeletionTimestamp = &metav1.Time{}
			}
			w.bound[i] = p
			w.state.SetPod(p)
		}
	case 3: // a node changes
		if len(w.nodes) > 0 {
			i := g.IntN(len(w.nodes))
			n := g.place(i)
			n.Name = w.nodes[i].Name
			w.nodes[i] = n
			w.state.SetNode(n)
		}
	case 4: // a node comes
		n := g.place(20 + g.IntN(10))
		for _, other := range w.nodes {
			if other.Name == n.Name {
				return
			}
		}
		w.nodes = append(w.nodes, n)
		w.state.SetNode(n)
	case 5: // a namespace changes
		ns := g.namespace(pick(g, "default", "other", "third", "nowhere"))
		w.putNamespace(ns)
	case 6: // a pod comes
		if len(w.nodes) > 0 {
			p := g.social(fmt.Sprintf("new-%d", g.Uint32()))
			p.Spec.NodeName = pick(g, w.nodes...).Name
			w.bound = append(w.bound, p)
			w.state.SetPod(p)
		}
	}
}
