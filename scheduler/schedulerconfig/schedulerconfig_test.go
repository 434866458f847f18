package schedulerconfig_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/devices"
	"github.com/keelson-dev/keelson/scheduler/plugins"
	"github.com/keelson-dev/keelson/scheduler/schedulerconfig"
)

const header = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

// write writes a file and returns its path.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "scheduler.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func open(t *testing.T, text string) *schedulerconfig.Config {
	t.Helper()
	c, err := schedulerconfig.Open(write(t, header+text), schedulerconfig.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// describe returns the plugins of a profile with their weights and the roles that they lack, as far as it matters.
func describe(p scheduler.Profile) []string {
	var all []string
	for _, e := range p.Plugins {
		text := fmt.Sprintf("%s %d", e.Plugin.Name(), e.Weight)
		for name, role := range map[string]scheduler.Roles{"filter": scheduler.RolePredicate} {
			if _, ok := e.Plugin.(scheduler.Predicate); ok && e.Without&role != 0 {
				text += " without " + name
			}
		}
		all = append(all, text)
	}
	return all
}

// TestDefault: a file that says nothing is upstream's default, which is that of package plugins.
func TestDefault(t *testing.T) {
	var want []string
	for _, e := range plugins.Default() {
		want = append(want, fmt.Sprintf("%s %d", e.Plugin.Name(), e.Weight))
	}
	for name, c := range map[string]*schedulerconfig.Config{"empty file": open(t, ""), "Default": schedulerconfig.Default()} {
		if len(c.Profiles) != 1 || c.Profiles[0].SchedulerName != "default-scheduler" {
			t.Fatalf("%s: profiles %+v", name, c.Profiles)
		}
		got := describe(c.Profiles[0])
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: plugins (-want +got)\n%s", name, diff)
		}
		c.Profiles = nil
		if diff := cmp.Diff(&schedulerconfig.Config{
			InitialBackoff: time.Second, MaxBackoff: 10 * time.Second, Writes: 16,
			Election: schedulerconfig.Election{
				Enabled: true, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
				Namespace: "kube-system", Name: "kube-scheduler",
			},
			Client: schedulerconfig.Connection{QPS: 50, Burst: 100},
		}, c); diff != "" {
			t.Errorf("%s: the rest (-want +got)\n%s", name, diff)
		}
	}
}

// TestProcess: what concerns the whole process.
func TestProcess(t *testing.T) {
	c := open(t, `
parallelism: 4
podInitialBackoffSeconds: 2
podMaxBackoffSeconds: 30
percentageOfNodesToScore: 100
delayCacheUntilActive: true
enableProfiling: false
leaderElection: {leaderElect: false, leaseDuration: 20s, renewDeadline: 12s, retryPeriod: 3s, resourceName: a, resourceNamespace: b, resourceLock: leases}
clientConnection: {kubeconfig: /k, qps: 7.5, burst: 9, contentType: application/vnd.kubernetes.protobuf}
profiles:
- pluginConfig: [{name: VolumeBinding, args: {bindTimeoutSeconds: 60}}, {name: DynamicResources, args: {filterTimeout: 3s, bindingTimeout: 1s}}]
`)
	if e := open(t, "leaderElection: {leaderElect: true}\n").Election; !e.Enabled || !e.Explicit {
		t.Errorf("a leader is elected: %+v", e)
	}
	open(t, "percentageOfNodesToScore: 0\n") // upstream's default, which stands for all here
	c.Profiles = nil
	if diff := cmp.Diff(&schedulerconfig.Config{
		InitialBackoff: 2 * time.Second, MaxBackoff: 30 * time.Second, Writes: 4, BindTimeout: time.Minute,
		DeviceFindTimeout: 3 * time.Second, DeviceBindTimeout: time.Second,
		Election: schedulerconfig.Election{
			Explicit: true, LeaseDuration: 20 * time.Second, RenewDeadline: 12 * time.Second, RetryPeriod: 3 * time.Second,
			Namespace: "b", Name: "a",
		},
		Client: schedulerconfig.Connection{Kubeconfig: "/k", QPS: 7.5, Burst: 9},
	}, c); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// only enables two plugins and the ones without which nothing works.
const only = `profiles:
- plugins:
    multiPoint:
      disabled: [{name: "*"}]
      enabled: [{name: PrioritySort}, {name: DefaultBinder}, {name: NodeName}, {name: NodeAffinity, weight: 5}]
`

func TestPlugins(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want string
	}{
		"little backoff":          {"podInitialBackoffSeconds: 1\npodMaxBackoffSeconds: 1\n" + only, "NodeName 0, NodeAffinity 5"},
		"long backoff":            {"podMaxBackoffSeconds: 86400\n" + only, "NodeName 0, NodeAffinity 5"},
		"nobody is elected":       {"leaderElection: {leaderElect: false, leaseDuration: -5s, resourceLock: none}\n" + only, "NodeName 0, NodeAffinity 5"},
		"profiling is off":        {"enableContentionProfiling: false\nclientConnection: {burst: 0}\n" + only, "NodeName 0, NodeAffinity 5"},
		"all disabled but some":   {only, "NodeName 0, NodeAffinity 5"},
		"no weight":               {strings.Replace(only, ", weight: 5", "", 1), "NodeName 0, NodeAffinity 1"},
		"another weight at score": {only + "    score: {enabled: [{name: NodeAffinity, weight: 7}]}\n", "NodeName 0, NodeAffinity 7"},
		"no scores":               {only + "    score: {disabled: [{name: NodeAffinity}]}\n", "NodeName 0, NodeAffinity 0"},
		"no scores at all":        {only + "    score: {disabled: [{name: \"*\"}]}\n", "NodeName 0, NodeAffinity 0"},
		"none but one": {only + "    score: {disabled: [{name: \"*\"}], enabled: [{name: NodeAffinity, weight: 2}, {name: ImageLocality}]}\n" +
			"    preScore: {}\n", "NodeName 0, NodeAffinity 2, ImageLocality 1"},
		"no filters": {only + "    filter: {disabled: [{name: \"*\"}]}\n    preFilter: {disabled: [{name: \"*\"}]}\n", "NodeAffinity 5 without filter"},
		"only preFilter": {only + "    filter: {disabled: [{name: NodeAffinity}]}\n    score: {disabled: [{name: NodeAffinity}]}\n",
			"NodeName 0, NodeAffinity 0 without filter"},
		"only preScore": {only + "    filter: {disabled: [{name: \"*\"}]}\n    preFilter: {disabled: [{name: \"*\"}]}\n    score: {disabled: [{name: NodeAffinity}]}\n", ""},
		"another order": {only + "    filter: {enabled: [{name: NodeAffinity}]}\n", "NodeAffinity 5, NodeName 0"},
		"a further one": {only + "    filter: {enabled: [{name: NodePorts}]}\n    preFilter: {enabled: [{name: NodePorts}]}\n", "NodeName 0, NodeAffinity 5, NodePorts 0"},
		"in place of a default": {`profiles:
- plugins:
    multiPoint:
      disabled: [{name: NodeAffinity}, {name: TaintToleration}, {name: ImageLocality}, {name: DefaultPreemption}, {name: NodeResourcesBalancedAllocation}]
      enabled: [{name: NodeAffinity, weight: 9}, {name: PodTopologySpread, weight: 4}]
`, "SchedulingGates 0, NodeName 0, NodeUnschedulable 0, NodePorts 0, NodeResourcesFit 1, VolumeRestrictions 0, NodeVolumeLimits 0, " +
			"VolumeBinding 1, VolumeZone 0, PodTopologySpread 4, InterPodAffinity 2, DynamicResources 2, NodeDeclaredFeatures 0, NodeAffinity 9"},
	} {
		if got := strings.Join(describe(open(t, c.text).Profiles[0]), ", "); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestProfiles: each profile has plugins of its own.
func TestProfiles(t *testing.T) {
	c := open(t, `profiles:
- schedulerName: one
- schedulerName: two
  plugins: {multiPoint: {disabled: [{name: NodeName}]}}
  pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [example.com/a]}}]
`)
	names := func(i int) string { return strings.Join(describe(c.Profiles[i]), ", ") }
	if len(c.Profiles) != 2 || c.Profiles[1].SchedulerName != "two" || !strings.Contains(names(0), "NodeName") || strings.Contains(names(1), "NodeName") {
		t.Errorf("got %s and %s", names(0), names(1))
	}
	if fit := find[plugins.NodeResourcesFit](c.Profiles[0]); len(fit.Ignored) != 0 {
		t.Errorf("arguments of another profile: %+v", fit)
	}
	if fit := find[plugins.NodeResourcesFit](c.Profiles[1]); len(fit.Ignored) != 1 {
		t.Errorf("arguments: %+v", fit)
	}
}

// find returns a plugin of a profile.
func find[T scheduler.Plugin](p scheduler.Profile) (found T) {
	for _, e := range p.Plugins {
		if plugin, ok := e.Plugin.(T); ok {
			return plugin
		}
	}
	return found
}

func TestArguments(t *testing.T) {
	required := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "a", Operator: corev1.NodeSelectorOpExists}},
	}}}
	for name, c := range map[string]struct {
		plugin, args string
		want         scheduler.Plugin
	}{
		"preemption": {"DefaultPreemption", "minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 7",
			plugins.DefaultPreemption{Candidates: plugins.Candidates{Absolute: 7}}},
		"preemption, a default": {"DefaultPreemption", "minCandidateNodesPercentage: 20",
			plugins.DefaultPreemption{Candidates: plugins.Candidates{Percentage: 20, Absolute: 100}}},
		"preemption, the other default": {"DefaultPreemption", "minCandidateNodesAbsolute: 7",
			plugins.DefaultPreemption{Candidates: plugins.Candidates{Percentage: 10, Absolute: 7}}},
		"preemption, only a percentage": {"DefaultPreemption", "minCandidateNodesAbsolute: 0",
			plugins.DefaultPreemption{Candidates: plugins.Candidates{Percentage: 10}}},
		"preemption, all": {"DefaultPreemption", "minCandidateNodesPercentage: 100",
			plugins.DefaultPreemption{Candidates: plugins.Candidates{Percentage: 100, Absolute: 100}}},
		"pod affinity": {"InterPodAffinity", "hardPodAffinityWeight: 0, ignorePreferredTermsOfExistingPods: true",
			plugins.InterPodAffinity{HardPodAffinityWeight: ptr.To[int32](0), IgnorePreferredTermsOfExistingPods: true}},
		"fit, with its kind": {"NodeResourcesFit", "apiVersion: kubescheduler.config.k8s.io/v1, kind: NodeResourcesFitArgs, ignoredResources: [a.b/c], ignoredResourceGroups: [d.e]",
			plugins.NodeResourcesFit{Ignored: []string{"a.b/c"}, IgnoredGroups: []string{"d.e"}}},
		"fit, most": {"NodeResourcesFit", "scoringStrategy: {type: MostAllocated, resources: [{name: cpu}, {name: a.b/c, weight: 3}]}",
			plugins.NodeResourcesFit{Scoring: plugins.Scoring{Strategy: plugins.MostAllocated, Resources: []plugins.WeightedResource{{Name: "cpu", Weight: 1}, {Name: "a.b/c", Weight: 3}}}}},
		"fit, ratio": {"NodeResourcesFit", "scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: [{utilization: 0, score: 1}, {utilization: 90, score: 10}]}}",
			plugins.NodeResourcesFit{Scoring: plugins.Scoring{Strategy: plugins.RequestedToCapacityRatio, Shape: plugins.Shape{{Utilization: 0, Score: 10}, {Utilization: 90, Score: 100}}}}},
		"balanced": {"NodeResourcesBalancedAllocation", "resources: [{name: cpu, weight: 1}, {name: a.b/c}]",
			plugins.NodeResourcesBalancedAllocation{Resources: []corev1.ResourceName{"cpu", "a.b/c"}}},
		"spread, none":   {"PodTopologySpread", "defaultingType: List", plugins.PodTopologySpread{Defaults: []corev1.TopologySpreadConstraint{}}},
		"spread, system": {"PodTopologySpread", "defaultingType: System", plugins.PodTopologySpread{}},
		"spread": {"PodTopologySpread", "defaultingType: List, defaultConstraints: [{maxSkew: 2, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]",
			plugins.PodTopologySpread{Defaults: []corev1.TopologySpreadConstraint{{MaxSkew: 2, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule}}}},
		"fit, the limits": {"NodeResourcesFit", "scoringStrategy: {type: LeastAllocated, resources: [{name: cpu, weight: 100}]}",
			plugins.NodeResourcesFit{Scoring: plugins.Scoring{Strategy: plugins.LeastAllocated, Resources: []plugins.WeightedResource{{Name: "cpu", Weight: 100}}}}},
		"no volumes":         {"VolumeBinding", "bindTimeoutSeconds: 86400", plugins.VolumeBinding{}},
		"pod affinity, most": {"InterPodAffinity", "hardPodAffinityWeight: 100", plugins.InterPodAffinity{HardPodAffinityWeight: ptr.To[int32](100)}},
		"constraints": {"PodTopologySpread", "defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule}, {maxSkew: 1, topologyKey: a, whenUnsatisfiable: ScheduleAnyway}, {maxSkew: 1, topologyKey: b, whenUnsatisfiable: DoNotSchedule}]",
			plugins.PodTopologySpread{Defaults: []corev1.TopologySpreadConstraint{
				{MaxSkew: 1, TopologyKey: "a", WhenUnsatisfiable: corev1.DoNotSchedule}, {MaxSkew: 1, TopologyKey: "a", WhenUnsatisfiable: corev1.ScheduleAnyway},
				{MaxSkew: 1, TopologyKey: "b", WhenUnsatisfiable: corev1.DoNotSchedule},
			}}},
		"an empty affinity": {"NodeAffinity", "addedAffinity: {}", plugins.NodeAffinity{Added: &corev1.NodeAffinity{}}},
		"no affinity":       {"NodeAffinity", "", plugins.NodeAffinity{}},
		"volumes":           {"VolumeBinding", "shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]", plugins.VolumeBinding{Shape: plugins.Shape{{Utilization: 0, Score: 0}, {Utilization: 100, Score: 100}}}},
		"affinity": {"NodeAffinity", "addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}",
			plugins.NodeAffinity{Added: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}}},
		"none": {"NodeName", "", plugins.NodeName{}},
	} {
		config := open(t, fmt.Sprintf("profiles: [{pluginConfig: [{name: %s, args: {%s}}]}]\n", c.plugin, c.args))
		for _, e := range config.Profiles[0].Plugins {
			if e.Plugin.Name() != c.plugin {
				continue
			}
			if diff := cmp.Diff(c.want, e.Plugin); diff != "" {
				t.Errorf("%s (-want +got)\n%s", name, diff)
			}
		}
	}
}

// own is a plugin of the reader of the file.
func own() scheduler.Plugin {
	return scheduler.BinderFunc("Mine", func(context.Context, *corev1.Pod, string) error { return nil })
}

// winnower is a plugin that filters many nodes at once.
type winnower struct{}

func (winnower) Name() string { return "Winnower" }

func (winnower) Winnow(_ context.Context, _ *corev1.Pod, nodes []*scheduler.NodeInfo) ([]*scheduler.Refusal, error) {
	return make([]*scheduler.Refusal, len(nodes)), nil
}

// TestOwnPlugins: a file may name plugins that the program has.
func TestOwnPlugins(t *testing.T) {
	text := header + only + "    bind: {enabled: [{name: Mine}]}\n"
	c, err := schedulerconfig.Open(write(t, text), schedulerconfig.Options{Plugins: []scheduler.Plugin{own()}})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(describe(c.Profiles[0]), ", "); got != "NodeName 0, NodeAffinity 5, Mine 0" {
		t.Errorf("got %s", got)
	}
	c, err = schedulerconfig.Open(write(t, header+only+"    filter: {enabled: [{name: Winnower}]}\n"), schedulerconfig.Options{Plugins: []scheduler.Plugin{winnower{}}})
	if err != nil || !strings.HasSuffix(strings.Join(describe(c.Profiles[0]), ", "), "Winnower 0") {
		t.Errorf("a winnower: %+v, %v", c, err)
	}
	_, err = schedulerconfig.Open(write(t, text+"    permit: {enabled: [{name: Mine}]}\n"), schedulerconfig.Options{Plugins: []scheduler.Plugin{own()}})
	if err == nil || !strings.Contains(err.Error(), `plugin "Mine" does not extend PermitPlugin plugin`) {
		t.Errorf("got %v", err)
	}
	_, err = schedulerconfig.Open(write(t, header+only+"    bind: {disabled: [{name: DefaultBinder}], enabled: [{name: Mine}]}\n"), schedulerconfig.Options{Plugins: []scheduler.Plugin{own()}})
	if err == nil || !strings.Contains(err.Error(), "bind: is not supported without DefaultBinder, which binds what other plugins decline") {
		t.Errorf("got %v", err)
	}
}

// TestMistakes: every error has file, line and field.
func TestMistakes(t *testing.T) {
	config := func(plugin, args string) string {
		return fmt.Sprintf("profiles:\n- pluginConfig:\n  - name: %s\n    args:\n      %s\n", plugin, args)
	}
	const args = "profiles[0].pluginConfig[0].args."
	for text, want := range map[string]string{
		"parallelism: 0\n":                                     `3: parallelism: Invalid value: 0: should be an integer value greater than zero`,
		"unknown: 1\n":                                         `3: unknown field "unknown"`,
		"parallelism: many\n":                                  `3: `,
		"podInitialBackoffSeconds: 0\n":                        `3: podInitialBackoffSeconds: Invalid value: 0: must be greater than 0`,
		"podMaxBackoffSeconds: 0\n":                            `3: podMaxBackoffSeconds: Invalid value: 0: must be greater than or equal to PodInitialBackoffSeconds`,
		"podMaxBackoffSeconds: 86401\n":                        `3: podMaxBackoffSeconds: 86401 is not supported: a day is the longest, 86400`,
		"podMaxBackoffSeconds: 9223372036854775807\n":          `3: podMaxBackoffSeconds: 9223372036854775807 is not supported`,
		"percentageOfNodesToScore: 50\n":                       `3: percentageOfNodesToScore: 50 is not supported: all nodes are considered`,
		"percentageOfNodesToScore: 101\n":                      `3: percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]`,
		"profiles:\n- percentageOfNodesToScore: -1\n":          `4: profiles[0].percentageOfNodesToScore: Invalid value: -1: not in valid range [0-100]`,
		"delayCacheUntilActive: false\n":                       `3: delayCacheUntilActive: false is not supported`,
		"enableProfiling: true\n":                              `3: enableProfiling: true is not supported`,
		"enableContentionProfiling: true\n":                    `3: enableContentionProfiling: true is not supported`,
		"clientConnection:\n  burst: -1\n":                     `4: clientConnection.burst: Invalid value: -1: must be non-negative`,
		"clientConnection:\n  contentType: application/json\n": `4: clientConnection.contentType: "application/json" is not supported`,
		"clientConnection:\n  acceptContentTypes: a/b\n":       `4: clientConnection.acceptContentTypes: is not supported`,
		"leaderElection:\n  leaseDuration: 5s\n":               "4: leaderElection.leaseDuration: Invalid value: \"10s\": must be greater than `RenewDeadline`",
		"leaderElection:\n  leaseDuration: 10s\n":              "4: leaderElection.leaseDuration: Invalid value: \"10s\": must be greater than `RenewDeadline`",
		"leaderElection:\n  retryPeriod: -5s\n":                `4: leaderElection.retryPeriod: Invalid value: "-5s": must be greater than zero`,
		"leaderElection:\n  resourceLock: configmaps\n":        `4: leaderElection.resourceLock: Invalid value: "configmaps": resourceLock value must be "leases"`,
		"leaderElection:\n  leaseDuration: -5s\n":              `4: leaderElection.leaseDuration: Invalid value: "-5s": must be greater than zero`,
		"leaderElection:\n  renewDeadline: -5s\n":              `4: leaderElection.renewDeadline: Invalid value: "-5s": must be greater than zero`,
		"profiles:\n- schedulerName: ''\n":                     `4: profiles[0].schedulerName: Required value`,
		"profiles:\n- {}\n- schedulerName: a\n":                `4: profiles[0].schedulerName: Required value`,
		"profiles:\n- schedulerName: a\n- schedulerName: a\n":  `5: profiles[1].schedulerName: Duplicate value: {}`,

		// Plugins.
		only + "    filter: {enabled: [{name: None}]}\n":                                                                           `8: profiles[0].plugins.filter.enabled[0]: Invalid value: "None": plugin "None" does not exist`,
		only + "    multiPoint2: {}\n":                                                                                             `8: unknown field "profiles[0].plugins.multiPoint2"`,
		only + "    score: {enabled: [{name: NodeName}]}\n":                                                                        `plugin "NodeName" does not extend ScorePlugin plugin`,
		only + "    filter: {enabled: [{name: NodePorts}, {name: NodePorts}]}\n":                                                   `plugin "NodePorts" already registered as "FilterPlugin"`,
		only + "    queueSort: {disabled: [{name: \"*\"}]}\n":                                                                      `8: profiles[0].plugins.queueSort: only one queue sort plugin required, but got 0`,
		only + "    bind: {disabled: [{name: DefaultBinder}]}\n":                                                                   `8: profiles[0].plugins.bind: at least one bind plugin is needed`,
		only + "    preFilter: {disabled: [{name: NodeAffinity}]}\n":                                                               `8: profiles[0].plugins.preFilter: plugin "NodeAffinity" is not supported at filter without preFilter`,
		only + "    preScore: {disabled: [{name: NodeAffinity}]}\n":                                                                `8: profiles[0].plugins.preScore: plugin "NodeAffinity" is not supported at score without preScore`,
		only + "    placementScore: {enabled: [{name: NodeResourcesFit}]}\n":                                                       `8: profiles[0].plugins.placementScore.enabled: is not supported`,
		only + "    filter: {enabled: [{name: EBSLimits}]}\n":                                                                      `was invalid in version "v1" (KubeSchedulerConfiguration is version "kubescheduler.config.k8s.io/v1")`,
		only + "    score: {enabled: [{name: NodeAffinity, weight: -1}]}\n":                                                        `weights are positive`,
		"profiles:\n- plugins:\n    reserve: {disabled: [{name: VolumeBinding}]}\n":                                                `5: profiles[0].plugins.reserve: plugin "VolumeBinding" is not supported`,
		"profiles:\n- plugins:\n    preEnqueue: {disabled: [{name: DefaultPreemption}]}\n":                                         `5: profiles[0].plugins.preEnqueue: plugin "DefaultPreemption" is not supported`,
		"profiles:\n- plugins:\n    multiPoint: {enabled: [{name: NodeName}, {name: NodeName}]}\n":                                 `plugin "NodeName" already registered`,
		"profiles:\n- plugins:\n    reserve: {enabled: [{name: VolumeBinding}]}\n    permit: {enabled: [{name: VolumeBinding}]}\n": `plugin "VolumeBinding" does not extend PermitPlugin plugin`,

		// Arguments.
		"profiles:\n- pluginConfig:\n  - name: NodeName\n  - name: NodeName\n":                                                                                                `6: profiles[0].pluginConfig[1]: Duplicate value: "NodeName"`,
		"profiles:\n- pluginConfig:\n  - name: None\n":                                                                                                                        `5: profiles[0].pluginConfig[0].name: Invalid value: "None": plugin "None" does not exist`,
		config("NodeName", "a: 1"):                                                                                                                                            `6: profiles[0].pluginConfig[0].args: plugin "NodeName" takes no arguments here`,
		config("DynamicResources", "timeout: 1s"):                                                                                                                             `7: unknown field "timeout"`,
		config("DynamicResources", "filterTimeout: -1s"):                                                                                                                      "7: " + args + `filterTimeout: Invalid value: "-1s": must be zero or positive`,
		config("DynamicResources", "bindingTimeout: 999ms"):                                                                                                                   "7: " + args + `bindingTimeout: Invalid value: "999ms": must be at least 1 second`,
		config("NodeResourcesFit", "ignored: [a]"):                                                                                                                            `7: unknown field "ignored"`,
		config("NodeResourcesFit", "kind: NodeAffinityArgs"):                                                                                                                  `7: args for plugin NodeResourcesFit were not of type NodeResourcesFitArgs.kubescheduler.config.k8s.io, got NodeAffinityArgs.`,
		config("NodeResourcesFit", "ignoredResources: [a/b/c]"):                                                                                                               "7: " + args + `ignoredResources[0]: Invalid value: "a/b/c"`,
		config("NodeResourcesFit", "ignoredResourceGroups: [a/b]"):                                                                                                            "7: " + args + `ignoredResourceGroups[0]: Invalid value: "a/b": resource group name can't contain '/'`,
		config("NodeResourcesFit", "scoringStrategy: {type: Some}"):                                                                                                           "7: " + args + `scoringStrategy.type: Unsupported value: "Some": supported values: "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"`,
		config("NodeResourcesFit", "scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 101}]}"):                                                           "7: " + args + `scoringStrategy.resources[0].weight: Invalid value: 101: resource weight of cpu not in valid range (0, 100]`,
		config("NodeResourcesFit", "scoringStrategy: {type: RequestedToCapacityRatio}"):                                                                                       "7: " + args + `scoringStrategy.requestedToCapacityRatio: Required value: must be specified when type is RequestedToCapacityRatio`,
		config("NodeResourcesFit", "scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: {}}"):                                                         `shape: Required value: at least one point must be specified`,
		config("NodeResourcesFit", "scoringStrategy: {type: LeastAllocated, requestedToCapacityRatio: {}}"):                                                                   `requestedToCapacityRatio: Forbidden: must be nil when type is not RequestedToCapacityRatio`,
		config("VolumeBinding", "shape: [{utilization: 50, score: 1}, {utilization: 50, score: 11}]"):                                                                         "7: " + args + `shape[1].utilization: Invalid value: 50: values must be sorted in increasing order`,
		config("VolumeBinding", "shape: [{utilization: 50, score: 11}]"):                                                                                                      "7: " + args + `shape[0].score: Invalid value: 11: not in valid range [0, 10]`,
		config("VolumeBinding", "bindTimeoutSeconds: -1"):                                                                                                                     "7: " + args + `bindTimeoutSeconds: Invalid value: -1: invalid BindTimeoutSeconds, should not be a negative value`,
		config("VolumeBinding", "bindTimeoutSeconds: 0"):                                                                                                                      "7: " + args + `bindTimeoutSeconds: 0 is not supported`,
		config("NodeResourcesBalancedAllocation", "resources: [{name: cpu}, {name: cpu, weight: 2}]"):                                                                         "7: " + args + `resources[1].name: Duplicate value: "cpu"`,
		config("NodeResourcesBalancedAllocation", "resources: [{name: cpu, weight: 2}]"):                                                                                      "7: " + args + `resources[0].weight: Invalid value: 2: must be 1`,
		config("DefaultPreemption", "minCandidateNodesPercentage: 101"):                                                                                                       "7: " + args + `minCandidateNodesPercentage: Invalid value: 101: not in valid range [0, 100]`,
		config("DefaultPreemption", "minCandidateNodesPercentage: -1"):                                                                                                        "7: " + args + `minCandidateNodesPercentage: Invalid value: -1: not in valid range [0, 100]`,
		"extenders:\n- urlPrefix: https://a\n  tlsConfig:\n    certData: YQ==\n    keyData: YQ==\n":                                                                           `extenders[0].tlsConfig.certFile: tls: failed to find any PEM data`,
		config("NodeResourcesFit", "ignoredResourceGroups: [-a]"):                                                                                                             "7: " + args + `ignoredResourceGroups[0]: Invalid value: "-a": name part must consist of`,
		config("NodeResourcesFit", "scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: -1}]}"):                                                            "7: " + args + `scoringStrategy.resources[0].weight: Invalid value: -1`,
		config("PodTopologySpread", "{defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: -a, whenUnsatisfiable: DoNotSchedule}]}"):                          args + `defaultConstraints[0].topologyKey: Invalid value: "-a": name part must consist of`,
		config("PodTopologySpread", "{defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: Some}]}"):                                    args + `defaultConstraints[0].whenUnsatisfiable: Unsupported value: "Some": supported values: "DoNotSchedule", "ScheduleAnyway"`,
		config("NodeAffinity", "addedAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: a, operator: Some}]}}]}"): args + `addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].matchExpressions[0].operator: Unsupported value: "Some"`,
		config("VolumeBinding", "shape: [{utilization: 101}]"):                                                                                                                "7: " + args + `shape[0].utilization: Invalid value: 101: not in valid range [0, 100]`,
		config("VolumeBinding", "bindTimeoutSeconds: 86401"):                                                                                                                  "7: " + args + `bindTimeoutSeconds: 86401 is not supported: volumes are bound within a second to a day`,
		config("VolumeBinding", "a"):                                                                                                                                          "6: ",
		config("DefaultPreemption", "minCandidateNodesAbsolute: -1"):                                                                                                          "7: " + args + `minCandidateNodesAbsolute: Invalid value: -1: not in valid range [0, inf)`,
		config("DefaultPreemption", "{minCandidateNodesAbsolute: 0, minCandidateNodesPercentage: 0}"):                                                                         `cannot be zero at the same time as minCandidateNodesAbsolute`,
		config("InterPodAffinity", "hardPodAffinityWeight: 101"):                                                                                                              "7: " + args + `hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]`,
		config("PodTopologySpread", "defaultingType: Some"):                                                                                                                   "7: " + args + `defaultingType: Unsupported value: "Some": supported values: "System", "List"`,
		config("PodTopologySpread", "defaultConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: ScheduleAnyway}]"):                                                  args + `defaultingType: Invalid value: "System": when .defaultConstraints are not empty`,
		config("PodTopologySpread", "{defaultingType: List, defaultConstraints: [{topologyKey: \"\"}]}"):                                                                      args + `defaultConstraints[0].maxSkew: Invalid value: 0: not in valid range (0, inf)`,
		config("PodTopologySpread", "{defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: \"\"}]}"):                                                          args + `defaultConstraints[0].topologyKey: Required value: can not be empty`,
		config("PodTopologySpread", "{defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: a}]}"):                                                             args + `defaultConstraints[0].whenUnsatisfiable: Required value: can not be empty`,
		config("PodTopologySpread", "{defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: a, labelSelector: {}}]}"):                                          args + `defaultConstraints[0].labelSelector: Forbidden: constraint must not define a selector, as they deduced for each pod`,
		config("PodTopologySpread", "{defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule}, {maxSkew: 2, topologyKey: a, whenUnsatisfiable: DoNotSchedule}]}"): args + `defaultConstraints[1]: Duplicate value: "{a, DoNotSchedule}"`,
		config("NodeAffinity", "addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Some}]}]}}"): "7: " + args +
			`addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator`,

		// Extenders.
		"extenders:\n- urlPrefix: http://a\n  prioritizeVerb: p\n":                                 `4: extenders[0].weight: Invalid value: 0: must have a positive weight applied to it`,
		"extenders:\n- urlPrefix: ftp://a\n":                                                       `4: extenders[0].urlPrefix: "ftp://a" is not a URL with http or https`,
		"extenders:\n- urlPrefix: http://a\n  httpTimeout: -1s\n":                                  `5: extenders[0].httpTimeout: -1s is not a time`,
		"extenders:\n- {urlPrefix: http://a, bindVerb: b}\n- {urlPrefix: http://b, bindVerb: b}\n": `3: extenders: Invalid value: "found 2 extenders implementing bind": only one extender can implement bind`,
		"extenders:\n- urlPrefix: http://a\n  managedResources: [{name: cpu}]\n":                   `5: extenders[0].managedResources[0].name: Invalid value: "cpu": is an invalid extended resource name`,
		"extenders:\n- urlPrefix: http://a\n  managedResources: [{name: a.b/c}, {name: a.b/c}]\n":  `managedResources[1].name: Invalid value: "a.b/c": duplicate extender managed resource name`,
		"extenders:\n- urlPrefix: https://a\n  tlsConfig:\n    caFile: /none\n":                    `6: extenders[0].tlsConfig.caFile: open /none`,
		"extenders:\n- urlPrefix: https://a\n  tlsConfig:\n    caData: YQ==\n":                     `extenders[0].tlsConfig.caFile: has no certificate`,
		"extenders:\n- urlPrefix: https://a\n  tlsConfig:\n    certData: YQ==\n":                   `5: extenders[0].tlsConfig: certFile, or certData, and keyFile, or keyData, go together`,
	} {
		path := write(t, header+text)
		_, err := schedulerconfig.Open(path, schedulerconfig.Options{})
		var e *schedulerconfig.Error
		if err == nil || !errors.As(err, &e) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path+":") {
			t.Errorf("%s: got %v\nwant something with %s", text, err, want)
		}
		if err != nil && strings.Contains(want, "does not exist") && strings.Contains(err.Error(), "does not extend") {
			t.Errorf("%s: it says more than that: %v", text, err)
		}
	}
	for text, want := range map[string]string{
		"apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration\n": "want apiVersion kubescheduler.config.k8s.io/v1",
		"a: b: c": "scheduler.yaml",
	} {
		if _, err := schedulerconfig.Open(write(t, text), schedulerconfig.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

// TestSharedTimes: what waits for volumes and devices is one for all profiles.
func TestSharedTimes(t *testing.T) {
	two := func(plugin, first, second string) string {
		text := header + "profiles:\n"
		for i, args := range []string{first, second} {
			text += fmt.Sprintf("- schedulerName: s%d\n  pluginConfig: [{name: %s, args: {%s}}]\n", i, plugin, args)
		}
		return text
	}
	c, err := schedulerconfig.Open(write(t, two("DynamicResources", "filterTimeout: 0s", "filterTimeout: 0s, bindingTimeout: 2s")), schedulerconfig.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if c.DeviceFindTimeout != devices.Unlimited || c.DeviceBindTimeout != 2*time.Second {
		t.Errorf("got %v, %v", c.DeviceFindTimeout, c.DeviceBindTimeout)
	}
	for _, tt := range []struct{ plugin, first, second, want string }{
		{"VolumeBinding", "bindTimeoutSeconds: 60", "bindTimeoutSeconds: 61", "bindTimeoutSeconds: 1m1s is not supported: it must be the same"},
		{"DynamicResources", "filterTimeout: 3s", "filterTimeout: 0s", "filterTimeout: 0s is not supported: it must be the same"},
		{"DynamicResources", "bindingTimeout: 3s", "bindingTimeout: 4s", "bindingTimeout: 4s is not supported: it must be the same"},
	} {
		_, err := schedulerconfig.Open(write(t, two(tt.plugin, tt.first, tt.second)), schedulerconfig.Options{})
		if err == nil || !strings.Contains(err.Error(), "profiles[1].pluginConfig[0].args."+tt.want) {
			t.Errorf("%s: got %v, want %s", tt.plugin, err, tt.want)
		}
	}
}
