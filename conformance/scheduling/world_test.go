package scheduling_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/testing/defaults"
	backend "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/groups"
	"github.com/keelson-dev/keelson/scheduler/plugins"
	"github.com/keelson-dev/keelson/scheduler/volumes"
)

var (
	clusters = flag.Int("clusters", 2000, "how many random clusters of each kind")
	seed     = flag.Uint64("seed", 1, "of the first cluster")
)

// objects are those of a cluster.
type objects struct {
	nodes       []*corev1.Node
	bound       []*corev1.Pod // with a node
	pending     []*corev1.Pod
	claims      []*corev1.PersistentVolumeClaim
	volumes     []*corev1.PersistentVolume
	classes     []*storagev1.StorageClass
	csiNodes    []*storagev1.CSINode
	drivers     []*storagev1.CSIDriver
	capacities  []*storagev1.CSIStorageCapacity
	attachments []*storagev1.VolumeAttachment
	namespaces  []*corev1.Namespace
	services    []*corev1.Service
	controllers []*corev1.ReplicationController
	sets        []*appsv1.ReplicaSet
	stateful    []*appsv1.StatefulSet
	devices     deviceObjects

	// The arguments of plugins, on both sides; nil are the default ones.
	affinity     plugins.InterPodAffinity
	affinityArgs *config.InterPodAffinityArgs
	spread       plugins.PodTopologySpread
	spreadArgs   *config.PodTopologySpreadArgs
}

// world is a cluster on both sides.
type world struct {
	*testing.T
	objects
	profile scheduler.Profile
	planner *scheduler.Planner
	theirs  framework.Framework
	// namespace replaces a namespace on both sides.
	putNamespace func(*corev1.Namespace)
	lister       *lister
	state        scheduler.State
}

// lister is upstream's view of nodes and pods, which a test replaces.
type lister struct{ fwk.SharedLister }

// filled returns an informer with objects, which does not run.
func filled[T informer.Object](all []T) *informer.Informer[T] {
	i := informer.New[T](memory.New[T](), informer.Options{})
	for _, obj := range all {
		i.Put(obj)
	}
	return i
}

// newWorld makes both sides, with those plugins of upstream's default that have one of the names.
func newWorld(t *testing.T, o objects, names ...string) *world {
	t.Helper()
	w := &world{T: t, objects: o, lister: &lister{}}
	w.newTheirs(names)
	storage := volumes.Sources{
		Nodes: filled(o.nodes), Claims: informer.New[*corev1.PersistentVolumeClaim](memory.New[*corev1.PersistentVolumeClaim](), informer.Options{}),
		Volumes: informer.New[*corev1.PersistentVolume](memory.New[*corev1.PersistentVolume](), informer.Options{}),
		Classes: filled(o.classes), CSINodes: filled(o.csiNodes), CSIDrivers: filled(o.drivers), Capacities: filled(o.capacities),
		Attachments: informer.New[*storagev1.VolumeAttachment](memory.New[*storagev1.VolumeAttachment](), informer.Options{}),
	}
	v := volumes.New(storage, nil, volumes.Options{})
	put(storage.Claims, o.claims)
	put(storage.Volumes, o.volumes)
	put(storage.Attachments, o.attachments)
	related := groups.Sources{
		Namespaces: filled(o.namespaces), Services: filled(o.services), ReplicationControllers: filled(o.controllers),
		ReplicaSets: filled(o.sets), StatefulSets: filled(o.stateful),
	}
	theirNamespace := w.putNamespace
	w.putNamespace = func(ns *corev1.Namespace) { theirNamespace(ns); related.Namespaces.Put(ns) }
	all := plugins.WithVolumes(plugins.Default(), v)
	if slices.Contains(names, devicesPlugin) {
		all = plugins.WithDevices(all, w.ourDevices())
	}
	for i, e := range all {
		switch e.Plugin.(type) {
		case plugins.InterPodAffinity:
			all[i].Plugin = o.affinity
		case plugins.PodTopologySpread:
			all[i].Plugin = o.spread
		}
	}
	w.profile = scheduler.Profile{Plugins: slices.DeleteFunc(plugins.WithGroups(all, groups.New(related)), func(e scheduler.Enabled) bool {
		return !slices.Contains(names, e.Plugin.Name())
	})}
	w.planner = scheduler.NewPlanner(&w.profile)
	if len(w.profile.Plugins) != len(names) {
		t.Fatalf("keelson has not all of %v", names)
	}
	for _, n := range o.nodes {
		w.state.SetNode(n)
	}
	for _, p := range o.bound {
		w.state.SetPod(p)
	}
	return w
}

func put[T informer.Object](i *informer.Informer[T], all []T) {
	for _, obj := range all {
		i.Put(obj)
	}
}

func (w *world) newTheirs(names []string) {
	metrics.Register()
	ctx := w.Context()
	factory := informers.NewSharedInformerFactory(fake.NewClientset(w.devices.all()...), 0)
	profile := &config.KubeSchedulerProfile{SchedulerName: "default-scheduler", Plugins: &config.Plugins{
		QueueSort: config.PluginSet{Enabled: []config.Plugin{{Name: "PrioritySort"}}},
		Bind:      config.PluginSet{Enabled: []config.Plugin{{Name: "DefaultBinder"}}},
		MultiPoint: config.PluginSet{Enabled: slices.DeleteFunc(slices.Clone(defaults.PluginsV1.MultiPoint.Enabled), func(p config.Plugin) bool {
			return !slices.Contains(names, p.Name)
		})},
	}, PluginConfig: slices.Clone(defaults.PluginConfigsV1)}
	for i, c := range profile.PluginConfig {
		switch {
		case c.Name == "InterPodAffinity" && w.affinityArgs != nil:
			profile.PluginConfig[i].Args = w.affinityArgs
		case c.Name == "PodTopologySpread" && w.spreadArgs != nil:
			profile.PluginConfig[i].Args = w.spreadArgs
		}
	}
	managed := func() {}
	var manager fwk.SharedDRAManager
	if slices.Contains(names, devicesPlugin) {
		manager, managed = w.theirDevices(factory)
	}
	f, err := frameworkruntime.NewFramework(ctx, upstream.NewInTreeRegistry(), profile,
		frameworkruntime.WithSharedDRAManager(manager),
		frameworkruntime.WithInformerFactory(factory), frameworkruntime.WithClientSet(fake.NewClientset()),
		frameworkruntime.WithSnapshotSharedLister(w.lister),
		frameworkruntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(factory.Storage().V1().CSINodes().Lister())),
	)
	if err != nil {
		w.Fatal(err)
	}
	w.theirs = f
	managed()
	core, storage := factory.Core().V1(), factory.Storage().V1()
	index(w, core.Nodes().Informer(), w.nodes)
	index(w, core.Namespaces().Informer(), w.namespaces)
	index(w, core.PersistentVolumeClaims().Informer(), w.claims)
	index(w, core.PersistentVolumes().Informer(), w.volumes)
	index(w, core.Services().Informer(), w.services)
	index(w, core.ReplicationControllers().Informer(), w.controllers)
	index(w, factory.Apps().V1().ReplicaSets().Informer(), w.sets)
	index(w, factory.Apps().V1().StatefulSets().Informer(), w.stateful)
	w.putNamespace = func(ns *corev1.Namespace) {
		if err := core.Namespaces().Informer().GetIndexer().Update(ns); err != nil {
			w.Fatal(err)
		}
	}
	index(w, storage.StorageClasses().Informer(), w.classes)
	index(w, storage.CSINodes().Informer(), w.csiNodes)
	index(w, storage.CSIDrivers().Informer(), w.drivers)
	index(w, storage.CSIStorageCapacities().Informer(), w.capacities)
	index(w, storage.VolumeAttachments().Informer(), w.attachments)
}

func index[T runtime.Object](w *world, i cache.SharedIndexInformer, all []T) {
	for _, obj := range all {
		if err := i.GetIndexer().Add(obj); err != nil {
			w.Fatal(err)
		}
	}
}

// verdict is what one side says of one node.
type verdict struct {
	By           string
	Reasons      []string
	Unresolvable bool
	Scores       map[string]int64 // weighted
}

// decision is what one side says of a pod.
type decision struct {
	Err   string
	Nodes map[string]verdict
}

// decide compares both sides' decisions about a pod, and returns the feasible nodes and upstream's state.
func (w *world) decide(pod *corev1.Pod) ([]string, fwk.CycleState) {
	w.Helper()
	theirs, feasible, state := w.decideTheirs(pod)
	ours := w.decideOurs(pod)
	if theirs.Err != "" && !strings.HasPrefix(theirs.Err, "0/") {
		theirs.Nodes, ours.Nodes = nil, nil // a failure, after which the sides stop at different nodes
	}
	if diff := cmp.Diff(theirs, ours); diff != "" {
		w.Fatalf("%s (-upstream +keelson):\n%s", pod.Name, diff)
	}
	return feasible, state
}

func (w *world) decideOurs(pod *corev1.Pod) decision {
	w.Helper()
	d := w.profile.Schedule(pod, w.state.Snapshot())
	if planned := w.planner.Schedule(pod, w.state.Snapshot()); planned.String() != d.String() {
		w.Fatalf("the planner says\n%s\ninstead of\n%s", planned, d)
	}
	out := decision{Nodes: map[string]verdict{}}
	if d.Err != nil {
		out.Err = d.Err.Error()
	}
	for _, v := range d.Verdicts {
		is := verdict{By: v.RefusedBy}
		if v.Refusal != nil {
			is.Reasons, is.Unresolvable = v.Refusal.Reasons, v.Refusal.Unresolvable
		}
		for _, s := range v.Scores {
			if !s.Skipped && s.Weighted != 0 {
				if is.Scores == nil {
					is.Scores = map[string]int64{}
				}
				is.Scores[s.Priority] = s.Weighted
			}
		}
		out.Nodes[v.Node] = is
	}
	return out
}

func (w *world) decideTheirs(pod *corev1.Pod) (decision, []string, fwk.CycleState) {
	ctx, state := context.Background(), framework.NewCycleState()
	snapshot := backend.NewSnapshot(w.bound, w.nodes)
	w.lister.SharedLister = snapshot
	out := decision{Nodes: map[string]verdict{}}
	refused := func(name string, s *fwk.Status) {
		out.Nodes[name] = verdict{By: s.Plugin(), Reasons: s.Reasons(), Unresolvable: s.Code() == fwk.UnschedulableAndUnresolvable}
	}
	diagnosis := framework.Diagnosis{NodeToStatus: framework.NewDefaultNodeToStatus()}
	eligible, status, by := w.theirs.RunPreFilterPlugins(ctx, state, pod)
	if status.IsRejected() {
		for _, n := range w.nodes {
			refused(n.Name, status)
		}
		diagnosis.PreFilterMsg = status.Message()
	} else if !status.IsSuccess() {
		out.Err = status.AsError().Error()
		return out, nil, state
	}
	var feasible []string
	var infos []fwk.NodeInfo
	if status.IsSuccess() {
		for _, n := range w.nodes {
			info, err := snapshot.NodeInfos().Get(n.Name)
			if err != nil {
				w.Fatal(err)
			}
			if !eligible.AllNodes() && !eligible.NodeNames.Has(n.Name) {
				names := slices.Sorted(maps.Keys(by))
				s := fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", names)).WithPlugin(strings.Join(names, ","))
				refused(n.Name, s)
				diagnosis.NodeToStatus.Set(n.Name, s)
				continue
			}
			s := w.theirs.RunFilterPlugins(ctx, state, pod, info)
			switch {
			case s.IsSuccess():
				feasible, infos = append(feasible, n.Name), append(infos, info)
				out.Nodes[n.Name] = verdict{}
			case s.IsRejected():
				refused(n.Name, s)
				diagnosis.NodeToStatus.Set(n.Name, s)
			default:
				out.Err = s.AsError().Error()
				return out, nil, state
			}
		}
	}
	if len(feasible) == 0 {
		out.Err = (&framework.FitError{Pod: pod, NumAllNodes: len(w.nodes), Diagnosis: diagnosis}).Error()
		if len(w.nodes) == 0 {
			out.Err = scheduler.ErrNoNodes.Error()
		}
	}
	if len(feasible) > 1 {
		w.scoreTheirs(ctx, state, pod, infos, &out)
	}
	return out, feasible, state
}

func (w *world) scoreTheirs(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, infos []fwk.NodeInfo, out *decision) {
	if s := w.theirs.RunPreScorePlugins(ctx, state, pod, infos); !s.IsSuccess() {
		out.Err = s.AsError().Error()
		return
	}
	all, s := w.theirs.RunScorePlugins(ctx, state, pod, infos)
	if !s.IsSuccess() {
		out.Err = s.AsError().Error()
		return
	}
	for _, node := range all {
		scores := map[string]int64{}
		for _, s := range node.Scores {
			if s.Score != 0 {
				scores[s.Name] = s.Score
			}
		}
		if len(scores) > 0 {
			v := out.Nodes[node.Name]
			v.Scores = scores
			out.Nodes[node.Name] = v
		}
	}
}

// place reserves a pod's volumes on a node on both sides, and puts it there, or takes all back.
func (w *world) place(pod *corev1.Pod, node string, state fwk.CycleState, keep bool) {
	w.Helper()
	theirs := w.theirs.RunReservePluginsReserve(context.Background(), state, pod, node)
	var undo func()
	var err error
	for _, e := range w.profile.Plugins {
		if r, ok := e.Plugin.(scheduler.Reserver); ok {
			undo, err = r.Reserve(context.Background(), pod, node)
		}
	}
	if theirs.IsSuccess() != (err == nil) {
		w.Fatalf("reserving for %s on %s: %v, keelson: %v", pod.Name, node, theirs.AsError(), err)
	}
	if err != nil || !keep {
		w.theirs.RunReservePluginsUnreserve(context.Background(), state, pod, node)
		if undo != nil {
			undo()
		}
		return
	}
	pod = pod.DeepCopy()
	pod.Spec.NodeName = node
	w.bound = append(w.bound, pod)
	w.state.SetPod(pod)
}

// each runs a test for each random cluster.
func each(t *testing.T, test func(t *testing.T, seed uint64)) {
	for i := range uint64(*clusters) {
		if !t.Run(fmt.Sprint(*seed+i), func(t *testing.T) { test(t, *seed+i) }) {
			return
		}
	}
}

// tally counts what the random clusters exercise: a test that never sees a message does not compare it.
type tally map[string]int

func (c tally) note(d scheduler.Decision) {
	var fit *scheduler.FitError
	if errors.As(d.Err, &fit) {
		for _, reason := range fit.Whole {
			c[plain(reason)]++
		}
	}
	for _, v := range d.Verdicts {
		if v.Refusal != nil {
			for _, reason := range v.Refusal.Reasons {
				c[plain(reason)]++
			}
		}
	}
	if d.Node != "" {
		c["placed"]++
	}
}

// plain replaces the names and numbers in a reason.
func plain(reason string) string {
	reason = strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return '#'
		}
		return r
	}, reason)
	parts := strings.Split(reason, `"`)
	for i := 1; i < len(parts); i += 2 {
		parts[i] = "…"
	}
	return strings.Join(parts, `"`)
}

func (c tally) log(t *testing.T) {
	for _, key := range slices.Sorted(maps.Keys(c)) {
		t.Logf("%7d %s", c[key], key)
	}
}

// decideChanged compares verdicts on nodes with other pods than the cluster has, as preemption asks for them.
func (w *world) decideChanged(g *generator, pod *corev1.Pod) {
	w.Helper()
	ctx, state := context.Background(), framework.NewCycleState()
	snapshot := backend.NewSnapshot(w.bound, w.nodes)
	w.lister.SharedLister = snapshot
	if _, status, _ := w.theirs.RunPreFilterPlugins(ctx, state, pod); !status.IsSuccess() {
		return
	}
	ours := w.state.Snapshot()
	checks := map[string]scheduler.Prepared{}
	for _, e := range w.profile.Plugins {
		prepared, err := e.Plugin.(scheduler.Preparer).Prepare(pod, ours)
		if err != nil {
			w.Fatal(err)
		}
		checks[e.Plugin.Name()] = prepared
	}
	for _, node := range w.nodes {
		info, err := snapshot.NodeInfos().Get(node.Name)
		if err != nil {
			w.Fatal(err)
		}
		info = info.Snapshot()
		state := state.Clone()
		was := ours.Node(node.Name)
		var left []*corev1.Pod
		for _, p := range was.Pods {
			if g.chance(0.5) {
				left = append(left, p.Pod)
				continue
			}
			gone, _ := framework.NewPodInfo(p.Pod)
			if err := info.RemovePod(klog.Background(), p.Pod); err != nil {
				w.Fatal(err)
			}
			if s := w.theirs.RunPreFilterExtensionRemovePod(ctx, state, pod, gone, info); !s.IsSuccess() {
				w.Fatal(s.AsError())
			}
		}
		for g.chance(0.4) {
			p := g.social(fmt.Sprintf("nominated-%d", g.Uint32()))
			left = append(left, p)
			come, _ := framework.NewPodInfo(p)
			info.AddPodInfo(come)
			if s := w.theirs.RunPreFilterExtensionAddPod(ctx, state, pod, come, info); !s.IsSuccess() {
				w.Fatal(s.AsError())
			}
		}
		var theirs, got verdict
		if s := w.theirs.RunFilterPlugins(ctx, state, pod, info); !s.IsSuccess() {
			theirs = verdict{By: s.Plugin(), Reasons: s.Reasons(), Unresolvable: s.Code() == fwk.UnschedulableAndUnresolvable}
		}
		is := scheduler.NewNodeInfo(node, left...)
		for _, e := range w.profile.Plugins {
			if c := checks[e.Plugin.Name()]; !c.Skip {
				if r := c.CheckChanged(was, is); r != nil {
					got = verdict{By: e.Plugin.Name(), Reasons: r.Reasons, Unresolvable: r.Unresolvable}
					break
				}
			}
		}
		if diff := cmp.Diff(theirs, got); diff != "" {
			w.Fatalf("%s on %s with other pods (-upstream +keelson):\n%s", pod.Name, node.Name, diff)
		}
	}
}
