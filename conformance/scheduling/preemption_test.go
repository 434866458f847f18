package scheduling_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	policylisters "k8s.io/client-go/listers/policy/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/testing/defaults"
	backend "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/budgets"
	"github.com/keelson-dev/keelson/scheduler/groups"
	"github.com/keelson-dev/keelson/scheduler/plugins"
)

// TestPreemption compares whom both sides preempt, where, and what they say if nobody is. Pods that preempt are nominated;
// their victims go at once, terminate, or stay for the next pod.
func TestPreemption(t *testing.T) {
	preempt(t, 3, nil)
}

// TestMixedPreemption does so where pods keep others near and apart, too.
func TestMixedPreemption(t *testing.T) {
	preempt(t, 7, func(g *generator, a *arena) {
		for _, n := range a.nodes {
			n.Labels[corev1.LabelHostname], n.Labels[corev1.LabelTopologyZone] = n.Name, pick(g, "z1", "z2")
			if g.chance(0.1) {
				delete(n.Labels, corev1.LabelTopologyZone)
			}
		}
		for _, p := range slices.Concat(a.bound, a.pending) {
			g.mix(p)
		}
	}, "PodTopologySpread", "InterPodAffinity")
}

// mix gives a contender required terms and constraints. Selectors that cannot be parsed would fail all later pods.
func (g *generator) mix(p *corev1.Pod) {
	keys := []string{corev1.LabelHostname, corev1.LabelTopologyZone, "rack"}
	selector := func() *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{pick(g, "x", "y"): "yes"}}
	}
	terms := func() (all []corev1.PodAffinityTerm) {
		for range g.few() {
			all = append(all, corev1.PodAffinityTerm{TopologyKey: pick(g, keys...), LabelSelector: selector(), Namespaces: pick(g, nil, nil, []string{"default", "other"})})
		}
		return all
	}
	if g.chance(0.4) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms()}}
		if g.chance(0.4) {
			p.Spec.Affinity.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms()}
		}
	}
	if g.chance(0.3) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1 + g.Int32N(2), TopologyKey: pick(g, keys...), LabelSelector: selector(), WhenUnsatisfiable: corev1.DoNotSchedule,
		}}
	}
}

// preempt makes arenas with the contested plugins and more, and has change change them.
func preempt(t *testing.T, stream uint64, change func(*generator, *arena), more ...string) {
	seen := tally{}
	each(t, func(t *testing.T, seed uint64) {
		g := &generator{Rand: rand.New(rand.NewPCG(seed, stream))}
		a := newArena(t, g, change, append(contested(), more...))
		for _, pod := range a.pending {
			if !slices.ContainsFunc(a.bound, func(p *corev1.Pod) bool { return p.UID == pod.UID }) {
				a.attempt(g, pod, seen)
			}
		}
	})
	seen.log(t)
}

// contested are the plugins that decide about the pods of TestPreemption.
func contested() []string {
	return []string{
		"NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit", "VolumeRestrictions",
	}
}

// arena is a cluster of pods that compete, on both sides.
type arena struct {
	*testing.T
	nodes          []*corev1.Node
	bound, pending []*corev1.Pod
	nominated      map[string][]*corev1.Pod

	profile scheduler.Profile
	plugin  plugins.DefaultPreemption

	theirs       framework.Framework
	theirPlugin  *defaultpreemption.DefaultPreemption
	view         *view
	pods         func(*corev1.Pod)
	mu           sync.Mutex
	theirVictims []string
}

// view is upstream's view of the nodes, the pods on them and those nominated for them.
type view struct {
	fwk.MutableSnapshotSharedLister
	fwk.PodNominator
	nominated map[string][]*corev1.Pod
}

func (v *view) NominatedPodsForNode(node string) (infos []fwk.PodInfo) {
	for _, p := range v.nominated[node] {
		info, _ := framework.NewPodInfo(p)
		infos = append(infos, info)
	}
	return infos
}

// sortedBudgets lists budgets by name; upstream's own lister has no order, which matters to pods with several.
type sortedBudgets struct {
	policylisters.PodDisruptionBudgetLister
	all []*policyv1.PodDisruptionBudget
}

func (s sortedBudgets) List(labels.Selector) ([]*policyv1.PodDisruptionBudget, error) {
	return s.all, nil
}

func newArena(t *testing.T, g *generator, change func(*generator, *arena), names []string) *arena {
	a := &arena{T: t, nominated: map[string][]*corev1.Pod{}, view: &view{}}
	a.generate(g)
	if change != nil {
		change(g, a)
	}
	pdbs := g.budgets()
	related := groups.New(groups.Sources{
		Namespaces: filled[*corev1.Namespace](nil), Services: filled[*corev1.Service](nil), ReplicationControllers: filled[*corev1.ReplicationController](nil),
		ReplicaSets: filled[*appsv1.ReplicaSet](nil), StatefulSets: filled[*appsv1.StatefulSet](nil),
	})
	a.profile = scheduler.Profile{Plugins: slices.DeleteFunc(plugins.WithGroups(plugins.Default(), related), func(e scheduler.Enabled) bool {
		return !slices.Contains(names, e.Plugin.Name())
	})}
	a.plugin.Budgets = budgets.New(filled(pdbs))
	a.newTheirs(pdbs, names)
	return a
}

func (a *arena) newTheirs(pdbs []*policyv1.PodDisruptionBudget, names []string) {
	metrics.Register()
	ctx := a.Context()
	client := fake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	profile := &config.KubeSchedulerProfile{SchedulerName: "default-scheduler", Plugins: &config.Plugins{
		QueueSort: config.PluginSet{Enabled: []config.Plugin{{Name: "PrioritySort"}}},
		Bind:      config.PluginSet{Enabled: []config.Plugin{{Name: "DefaultBinder"}}},
		MultiPoint: config.PluginSet{Enabled: slices.DeleteFunc(slices.Clone(defaults.PluginsV1.MultiPoint.Enabled), func(p config.Plugin) bool {
			return !slices.Contains(names, p.Name)
		})},
	}, PluginConfig: defaults.PluginConfigsV1}
	var err error
	a.theirs, err = frameworkruntime.NewFramework(ctx, upstream.NewInTreeRegistry(), profile,
		frameworkruntime.WithInformerFactory(factory), frameworkruntime.WithClientSet(client),
		frameworkruntime.WithSnapshotSharedLister(a.view), frameworkruntime.WithMutableSnapshotLister(a.view),
		frameworkruntime.WithPodNominator(a.view), frameworkruntime.WithParallelism(2),
	)
	if err != nil {
		a.Fatal(err)
	}
	a.theirPlugin, err = defaultpreemption.New(ctx, &config.DefaultPreemptionArgs{MinCandidateNodesPercentage: 10, MinCandidateNodesAbsolute: 100},
		a.theirs, feature.Features{})
	if err != nil {
		a.Fatal(err)
	}
	a.theirPlugin.Evaluator.PdbLister = sortedBudgets{all: pdbs}
	a.theirPlugin.Executor.PreemptPod = func(_ context.Context, _ preemption.Candidate, _ preemption.ExecutorPreemptor, victim *corev1.Pod, _ string) (bool, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.theirVictims = append(a.theirVictims, victim.Name)
		return false, nil
	}
	a.pods = func(p *corev1.Pod) {
		if err := factory.Core().V1().Pods().Informer().GetIndexer().Add(p); err != nil {
			a.Fatal(err)
		}
	}
}

// outcome is what one side does for a pod.
type outcome struct {
	Fits       []string
	Nomination string // "-" to keep the pod's own
	Victims    []string
	Message    string
}

// attempt compares both sides' attempts to place a pod, and carries out what they decide.
func (a *arena) attempt(g *generator, pod *corev1.Pod, seen tally) {
	a.Helper()
	state := scheduler.State{}
	for _, n := range a.nodes {
		state.SetNode(n)
	}
	for _, p := range a.bound {
		state.SetPod(p)
	}
	for node, pods := range a.nominated {
		for _, p := range pods {
			state.Nominate(p, node)
		}
	}
	ours, theirs := a.ours(pod, state.Snapshot()), a.upstream(pod)
	if diff := gocmp.Diff(theirs, ours); diff != "" {
		a.Fatalf("%s (-upstream +keelson):\n%s", pod.Name, diff)
	}
	seen[strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, ours.Message)]++
	switch {
	case len(ours.Fits) > 0:
		a.bind(pod, pick(g, ours.Fits...))
	case len(ours.Victims) > 0:
		a.preempt(g, pod, ours)
	}
}

func (a *arena) bind(pod *corev1.Pod, node string) {
	pod = pod.DeepCopy()
	pod.Spec.NodeName = node
	pod.Status.StartTime = &metav1.Time{Time: time.Unix(1.5e9+int64(len(a.bound)), 0)}
	a.bound = append(a.bound, pod)
	a.nominate(pod, "")
}

func (a *arena) nominate(pod *corev1.Pod, node string) {
	for name, pods := range a.nominated {
		a.nominated[name] = slices.DeleteFunc(slices.Clone(pods), func(p *corev1.Pod) bool { return p.UID == pod.UID })
	}
	if node != "" {
		a.nominated[node] = append(a.nominated[node], pod)
	}
}

func (a *arena) preempt(g *generator, pod *corev1.Pod, o outcome) {
	how := g.IntN(3)
	a.bound = slices.DeleteFunc(slices.Clone(a.bound), func(p *corev1.Pod) bool {
		return how == 0 && slices.Contains(o.Victims, p.Name)
	})
	for i, p := range a.bound {
		if how == 1 && slices.Contains(o.Victims, p.Name) {
			p = p.DeepCopy()
			p.DeletionTimestamp = &metav1.Time{Time: time.Unix(2e9, 0)}
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler}}
			a.bound[i] = p
		}
	}
	pod.Status.NominatedNodeName = o.Nomination
	a.nominate(pod, o.Nomination)
}

func (a *arena) ours(pod *corev1.Pod, s *scheduler.Snapshot) outcome {
	trial := a.profile.Trial(pod, s)
	d := trial.Decision()
	if d.Err == nil {
		var o outcome
		for _, v := range d.Feasible() {
			o.Fits = append(o.Fits, v.Node)
		}
		slices.Sort(o.Fits)
		return o
	}
	o := outcome{Nomination: "-"}
	n, err := a.plugin.Preempt(context.Background(), trial)
	if n != nil {
		o.Nomination, o.Message = n.Node, n.Message
		for _, v := range n.Victims {
			if v.DeletionTimestamp == nil {
				o.Victims = append(o.Victims, v.Name)
			}
		}
	}
	if err != nil {
		o.Message = err.Error()
	}
	slices.Sort(o.Victims)
	return o
}

// upstream does what upstream's scheduler does with a pod.
func (a *arena) upstream(pod *corev1.Pod) outcome {
	ctx, state := context.Background(), framework.NewCycleState()
	snapshot := backend.NewSnapshot(a.bound, a.nodes)
	a.view.MutableSnapshotSharedLister, a.view.nominated = snapshot, a.nominated
	a.pods(pod)
	var o outcome
	refused := framework.NewDefaultNodeToStatus()
	_, status, _ := a.theirs.RunPreFilterPlugins(ctx, state, pod)
	if status.IsRejected() {
		refused.SetAbsentNodesStatus(status)
	} else if !status.IsSuccess() {
		a.Fatal(status.AsError())
	}
	fits := func(node string) bool {
		info, err := snapshot.NodeInfos().Get(node)
		if err != nil {
			return false
		}
		s := a.theirs.RunFilterPluginsWithNominatedPods(ctx, state, pod, info)
		if !s.IsSuccess() {
			refused.Set(node, s)
		}
		return s.IsSuccess()
	}
	if name := pod.Status.NominatedNodeName; status.IsSuccess() && name != "" && fits(name) {
		return outcome{Fits: []string{name}}
	}
	for _, n := range a.nodes {
		if status.IsSuccess() && fits(n.Name) {
			o.Fits = append(o.Fits, n.Name)
		}
	}
	if len(o.Fits) > 0 {
		slices.Sort(o.Fits)
		return o
	}
	a.theirVictims, o.Nomination = nil, "-"
	result, status := a.theirPlugin.PostFilter(ctx, state, pod, refused)
	if result != nil && result.NominatingInfo != nil {
		o.Nomination = result.NominatedNodeName
	}
	slices.Sort(a.theirVictims)
	o.Victims, o.Message = a.theirVictims, status.Message()
	return o
}

// generate makes nodes that are nearly full, and pods that want in.
func (a *arena) generate(g *generator) {
	for i := range 1 + g.IntN(8) {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i), Labels: map[string]string{"rack": pick(g, "a", "b")}}}
		n.Status.Allocatable = corev1.ResourceList{
			"cpu": *resource.NewQuantity(int64(2+g.IntN(6)), resource.DecimalSI), "memory": *resource.NewQuantity(int64(2+g.IntN(6))<<30, resource.BinarySI),
			"pods": *resource.NewQuantity(int64(3+g.IntN(20)), resource.DecimalSI), "example.com/gpu": *resource.NewQuantity(int64(g.IntN(3)), resource.DecimalSI),
		}
		if g.chance(0.1) {
			n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: pick(g, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule)}}
		}
		n.Spec.Unschedulable = g.chance(0.05)
		a.nodes = append(a.nodes, n)
	}
	for i := range g.IntN(40) {
		p := g.contender(fmt.Sprintf("bound-%d", i), 6, 0.7)
		p.Spec.NodeName = pick(g, a.nodes...).Name
		// No two started at once, and all have: else upstream chooses by chance.
		p.Status.StartTime = &metav1.Time{Time: time.Unix(1e9+int64(g.IntN(1000))*100+int64(i), 0)}
		if len(a.nodes) == 1 && g.chance(0.2) {
			p.Status.StartTime = nil
		}
		if g.chance(0.1) {
			p.DeletionTimestamp = &metav1.Time{Time: time.Unix(2e9, 0)}
		}
		// Two pods with one port cannot be on one node, and upstream counts them as one.
		if ports := p.Spec.Containers[0].Ports; len(ports) > 0 && slices.ContainsFunc(a.bound, func(o *corev1.Pod) bool {
			others := o.Spec.Containers[0].Ports
			return o.Spec.NodeName == p.Spec.NodeName && len(others) > 0 && others[0].HostPort == ports[0].HostPort
		}) {
			p.Spec.Containers[0].Ports = nil
		}
		a.bound = append(a.bound, p)
	}
	for i := range 1 + g.IntN(6) {
		p := g.contender(fmt.Sprintf("pod-%d", i), 9, 1.5)
		if g.chance(0.2) {
			p.Status.NominatedNodeName = g.name("node", 9)
			a.nominate(p, p.Status.NominatedNodeName)
		}
		if g.chance(0.05) {
			p.Spec.PreemptionPolicy = pick(g, new(corev1.PreemptionPolicy), new(corev1.PreemptionPolicy))
			*p.Spec.PreemptionPolicy = pick(g, corev1.PreemptNever, corev1.PreemptLowerPriority)
		}
		a.pending = append(a.pending, p)
		if g.chance(0.3) {
			a.pending = append(a.pending, p) // it is tried again
		}
	}
}

// contender is a pod of a random priority and size.
func (g *generator) contender(name string, priorities int, size float64) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pick(g, "default", "default", "other"), Name: name, UID: types.UID(name), Labels: map[string]string{}}}
	priority := int32(g.IntN(priorities)) - 2
	if g.chance(0.9) {
		p.Spec.Priority = &priority
	}
	for _, key := range []string{"x", "y"} {
		if g.chance(0.3) {
			p.Labels[key] = "yes"
		}
	}
	requests := corev1.ResourceList{}
	if g.chance(0.9) {
		requests["cpu"] = *resource.NewMilliQuantity(int64(size*float64(100+g.IntN(3000))), resource.DecimalSI)
	}
	if g.chance(0.7) {
		requests["memory"] = *resource.NewQuantity(int64(size*float64(g.IntN(3<<30))), resource.BinarySI)
	}
	if g.chance(0.15) {
		requests["example.com/gpu"] = *resource.NewQuantity(1, resource.DecimalSI)
	}
	c := corev1.Container{Name: "c", Resources: corev1.ResourceRequirements{Requests: requests}}
	if g.chance(0.15) {
		c.Ports = []corev1.ContainerPort{{HostPort: int32(80 + g.IntN(2)), ContainerPort: 1}}
	}
	p.Spec.Containers = []corev1.Container{c}
	if g.chance(0.1) {
		p.Spec.NodeSelector = map[string]string{"rack": pick(g, "a", "b")}
	}
	if g.chance(0.2) {
		p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
	if g.chance(0.1) {
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{PDName: g.name("disk", 2)}}}}
	}
	return p
}

// budgets makes disruption budgets, by name.
func (g *generator) budgets() (all []*policyv1.PodDisruptionBudget) {
	for i := range g.IntN(5) {
		name := fmt.Sprintf("budget-%d", i)
		b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: pick(g, "default", "other"), Name: name, UID: types.UID(name)}}
		switch g.IntN(8) {
		case 0:
			b.Spec.Selector = pick(g, nil, &metav1.LabelSelector{})
		case 1:
			b.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "x", Operator: pick(g, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist, "Near")}}}
		default:
			b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{pick(g, "x", "y"): "yes"}}
		}
		b.Status.DisruptionsAllowed = int32(g.IntN(4))
		for range g.IntN(3) {
			if b.Status.DisruptedPods == nil {
				b.Status.DisruptedPods = map[string]metav1.Time{}
			}
			b.Status.DisruptedPods[g.name("bound", 40)] = metav1.Time{}
		}
		all = append(all, b)
	}
	slices.SortFunc(all, func(a, b *policyv1.PodDisruptionBudget) int { return cmp.Compare(a.Name, b.Name) })
	return all
}
