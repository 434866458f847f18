package scheduling_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	backend "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/schedulerconfig"
)

const header = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

// validated reads a configuration as upstream's program does, and returns what its rules say.
func validated(text string) (c *config.KubeSchedulerConfiguration, messages []string, err error) {
	obj, gvk, err := scheme.Codecs.UniversalDecoder().Decode([]byte(text), nil, nil)
	if err != nil {
		return nil, nil, err
	}
	c = obj.(*config.KubeSchedulerConfiguration)
	c.APIVersion = gvk.GroupVersion().String()
	if all := validation.ValidateKubeSchedulerConfiguration(c); all != nil {
		for _, err := range all.Errors() {
			messages = append(messages, err.Error())
		}
	}
	return c, messages, nil
}

// ours reads a configuration as keelson does.
func ours(t *testing.T, text string) (*schedulerconfig.Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return schedulerconfig.Open(path, schedulerconfig.Options{})
}

// TestInvalidConfigurations: what upstream's rules say of a configuration, keelson says, too.
func TestInvalidConfigurations(t *testing.T) {
	args := func(plugin, args string) string {
		return fmt.Sprintf("profiles: [{pluginConfig: [{name: %s, args: {%s}}]}]\n", plugin, args)
	}
	for _, text := range []string{
		"parallelism: 0\n", "parallelism: -1\n", "podInitialBackoffSeconds: 0\n", "podInitialBackoffSeconds: -3\npodMaxBackoffSeconds: -4\n", "podMaxBackoffSeconds: 0\n",
		"percentageOfNodesToScore: 101\n", "percentageOfNodesToScore: -1\n", "profiles: [{percentageOfNodesToScore: 101}]\n",
		"clientConnection: {burst: -1}\n", "leaderElection: {leaseDuration: 5s}\n", "leaderElection: {leaseDuration: -5s}\n", "leaderElection: {renewDeadline: -5s}\n",
		"leaderElection: {retryPeriod: -5s}\n", "leaderElection: {leaderElect: false, retryPeriod: -5s, resourceLock: configmaps}\n",
		"leaderElection: {resourceLock: configmaps}\n", "profiles: [{}, {schedulerName: a}]\n", "profiles: [{schedulerName: a}, {schedulerName: a}]\n",
		"profiles: [{schedulerName: ''}]\n",
		args("NodeResourcesFit", "ignoredResources: [a/b/c, -x]"), args("NodeResourcesFit", "ignoredResourceGroups: [a/b, _]"),
		args("NodeResourcesFit", "scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 101}, {name: memory, weight: -1}]}"),
		args("VolumeBinding", "shape: [{utilization: 50, score: 1}, {utilization: 50, score: 11}, {utilization: 40, score: -1}]"),
		args("VolumeBinding", "shape: [{utilization: 101, score: 1}]"), args("VolumeBinding", "bindTimeoutSeconds: -1"),
		args("NodeResourcesBalancedAllocation", "resources: [{name: cpu}, {name: cpu, weight: 2}]"),
		args("DefaultPreemption", "minCandidateNodesPercentage: 101"), args("DefaultPreemption", "minCandidateNodesAbsolute: -1"),
		args("DefaultPreemption", "minCandidateNodesAbsolute: 0, minCandidateNodesPercentage: 0"), args("DefaultPreemption", "minCandidateNodesPercentage: -5"),
		args("InterPodAffinity", "hardPodAffinityWeight: 101"), args("InterPodAffinity", "hardPodAffinityWeight: -1"),
		args("PodTopologySpread", "defaultingType: Some"),
		args("PodTopologySpread", "defaultConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: ScheduleAnyway}]"),
		args("PodTopologySpread", "defaultingType: List, defaultConstraints: [{topologyKey: ''}, {maxSkew: -1, topologyKey: '!', whenUnsatisfiable: Some, labelSelector: {}}]"),
		args("PodTopologySpread", "defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule}, {maxSkew: 2, topologyKey: a, whenUnsatisfiable: DoNotSchedule}]"),
		args("NodeAffinity", "addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Some}]}, {matchFields: [{key: b, operator: In, values: [c]}]}]}}"),
		args("NodeAffinity", "addedAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: a, operator: In}]}}]}"),
		"profiles: [{pluginConfig: [{name: NodeName}, {name: NodeName}]}]\n",
		"profiles: [{plugins: {filter: {enabled: [{name: EBSLimits}]}}}]\n",
		"extenders: [{urlPrefix: 'http://a', prioritizeVerb: p}]\n", "extenders: [{urlPrefix: 'http://a', bindVerb: b}, {urlPrefix: 'http://b', bindVerb: b}]\n",
		"extenders: [{urlPrefix: 'http://a', managedResources: [{name: cpu}, {name: kubernetes.io/a}, {name: a.b/c}, {name: a.b/c}, {name: a/b/c}, {name: requests.a.b/c}]}]\n",
	} {
		c, want, err := validated(header + text)
		if err != nil {
			t.Errorf("%s: upstream cannot decode it: %v", text, err)
			continue
		}
		_, got := ours(t, header+text)
		if _, err := theirFramework(t, &c.Profiles[0]); err != nil && len(want) == 0 && got != nil {
			continue // upstream checks arguments of NodeResourcesFit later, without the field
		}
		if (got == nil) != (len(want) == 0) {
			t.Errorf("%s: got %v, want %v", text, got, want)
			continue
		}
		for _, message := range want {
			if !strings.Contains(got.Error(), message) {
				t.Errorf("%s: got %v\nwant %s", text, got, message)
			}
		}
	}
}

// randomPlugins returns random changes of the plugins.
func randomPlugins(r *rand.Rand) string {
	names := []string{
		"SchedulingGates", "NodeName", "NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit", "VolumeRestrictions", "VolumeZone",
		"PodTopologySpread", "InterPodAffinity", "DefaultPreemption", "NodeResourcesBalancedAllocation", "ImageLocality", "DefaultBinder", "NodeDeclaredFeatures", "PrioritySort",
	}
	var b strings.Builder
	b.WriteString("profiles:\n- plugins:\n    multiPoint: {}\n")
	for _, p := range []string{"multiPoint", "preEnqueue", "preFilter", "filter", "postFilter", "preScore", "score"} {
		if r.IntN(3) > 0 {
			continue
		}
		var on, off []string
		for _, name := range names {
			switch r.IntN(12) {
			case 0:
				on = append(on, fmt.Sprintf("{name: %s, weight: %d}", name, r.IntN(4)))
			case 1:
				off = append(off, "{name: "+name+"}")
			}
		}
		if r.IntN(8) == 0 {
			off = append(off, `{name: "*"}`)
		}
		r.Shuffle(len(on), func(i, j int) { on[i], on[j] = on[j], on[i] })
		set := fmt.Sprintf("    %s: {enabled: [%s], disabled: [%s]}\n", p, strings.Join(on, ", "), strings.Join(off, ", "))
		if p == "multiPoint" {
			b.Reset()
			b.WriteString("profiles:\n- plugins:\n" + set)
		} else {
			b.WriteString(set)
		}
	}
	return b.String()
}

// TestPluginsOfConfigurations: the plugins of random configurations and their weights and order are upstream's, unless keelson
// says that something is not supported.
func TestPluginsOfConfigurations(t *testing.T) {
	r := rand.New(rand.NewPCG(*seed, 9))
	accepted, refused, unsupported := 0, 0, 0
	n := min(*clusters, 500) // each of upstream's frameworks stays
	for range n {
		text := header + randomPlugins(r)
		c, messages, err := validated(text)
		if err != nil {
			t.Fatal(err)
		}
		f, err := theirFramework(t, &c.Profiles[0])
		got, ourErr := ours(t, text)
		switch {
		case ourErr != nil && strings.Contains(ourErr.Error(), "not supported"):
			unsupported++
			continue
		case err != nil || len(messages) > 0:
			refused++
			if ourErr == nil {
				t.Fatalf("%s\nupstream: %v %v", text, err, messages)
			}
			continue
		case ourErr != nil:
			t.Fatalf("%s\nkeelson: %v", text, ourErr)
		}
		accepted++
		want := described{}
		for _, p := range f.Filter.Enabled {
			want.filter = append(want.filter, p.Name)
		}
		for _, p := range f.Score.Enabled {
			want.score = append(want.score, fmt.Sprintf("%s %d", p.Name, p.Weight))
		}
		want.preemption, want.gates = len(f.PostFilter.Enabled) > 0, slices.ContainsFunc(f.PreEnqueue.Enabled, func(p config.Plugin) bool { return p.Name == "SchedulingGates" })
		if diff := cmp.Diff(want.sorted(), describe(got.Profiles[0]).sorted(), cmp.AllowUnexported(described{})); diff != "" {
			t.Fatalf("%s(-upstream +keelson)\n%s", text, diff)
		}
	}
	t.Logf("%d accepted, %d refused by both, %d not supported", accepted, refused, unsupported)
	if accepted < n/20 || refused < n/50 {
		t.Error("too few that say something")
	}
}

// theirFramework returns upstream's plugins of a profile.
func theirFramework(t *testing.T, profile *config.KubeSchedulerProfile) (*config.Plugins, error) {
	metrics.Register()
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	ctx := klog.NewContext(t.Context(), klog.Background())
	registry := upstream.NewInTreeRegistry()
	// It needs more than there is here.
	profile.Plugins.MultiPoint.Enabled = slices.DeleteFunc(profile.Plugins.MultiPoint.Enabled, func(p config.Plugin) bool { return p.Name == "DynamicResources" })
	f, err := frameworkruntime.NewFramework(ctx, registry, profile,
		frameworkruntime.WithInformerFactory(factory), frameworkruntime.WithClientSet(fake.NewClientset()),
		frameworkruntime.WithSnapshotSharedLister(backend.NewEmptySnapshot()),
		frameworkruntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(factory.Storage().V1().CSINodes().Lister())),
	)
	if err != nil {
		return nil, err
	}
	return f.ListPlugins(), nil
}

// described is what matters of a profile's plugins.
type described struct {
	filter, score     []string
	preemption, gates bool
}

func (d described) sorted() described {
	slices.Sort(d.score)
	return d
}

func describe(p scheduler.Profile) described {
	var d described
	for _, e := range p.Plugins {
		name := e.Plugin.Name()
		if name == "DynamicResources" {
			continue
		}
		if _, ok := e.Plugin.(scheduler.Predicate); ok && e.Without&scheduler.RolePredicate == 0 && name != "SchedulingGates" {
			d.filter = append(d.filter, name)
		}
		if _, ok := e.Plugin.(scheduler.Preemptor); ok && e.Without&scheduler.RolePreemptor == 0 {
			d.preemption = true
		}
		if e.Weight > 0 {
			d.score = append(d.score, fmt.Sprintf("%s %d", name, e.Weight))
		}
		d.gates = d.gates || name == "SchedulingGates"
	}
	return d
}
