package schedulerconfig_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/schedulerconfig"
)

// TestAccepted: what looks unusual and is right.
func TestAccepted(t *testing.T) {
	for _, text := range []string{
		"leaderElection: {leaderElect: true, resourceLock: leases}\n",
		"profiles: [{pluginConfig: [{name: NodeName, args: null}, {name: NodePorts}, {name: NodeResourcesFit, args: null}, {name: NodeAffinity}]}]\n",
		"profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {apiVersion: kubescheduler.config.k8s.io/v1}}, {name: NodeAffinity, args: {kind: NodeAffinityArgs}}]}]\n",
		"profiles: [{plugins: {placementScore: {disabled: [{name: '*'}]}}}]\n",
		"profiles: [{plugins: {preFilter: {disabled: [{name: NodeName}, {name: NodeUnschedulable}, {name: TaintToleration}]}}}]\n", // which prepare nothing
		"profiles: [{plugins: {preScore: {enabled: [{name: NodeAffinity}, {name: TaintToleration}]}}}]\n",
		"profiles: [{plugins: {multiPoint: {enabled: [{name: NodeAffinity, weight: 0}]}}}]\n",
		"extenders: [{urlPrefix: http://a, prioritizeVerb: p, weight: 1}]\n",
	} {
		if got := strings.Join(describe(open(t, text).Profiles[0]), ", "); !strings.HasPrefix(got, "SchedulingGates 0, NodeName 0, NodeUnschedulable 0, TaintToleration 3, NodeAffinity ") {
			t.Errorf("%s: %s", text, got)
		}
	}
	if got := strings.Join(describe(open(t, strings.Replace(only, "weight: 5", "weight: 0", 1)).Profiles[0]), ", "); got != "NodeName 0, NodeAffinity 1" {
		t.Errorf("the weight 0: %s", got)
	}
}

// TestRefused: mistakes that are close to what is accepted.
func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		"extenders: [{urlPrefix: 'http://'}]\n":                                                                                           `urlPrefix: "http://" is not a URL with http or https`,
		"extenders: [{urlPrefix: 'http://['}]\n":                                                                                          `urlPrefix: "http://[" is not a URL with http or https`,
		"extenders: [{urlPrefix: http://a, prioritizeVerb: p, weight: -1}]\n":                                                             `weight: Invalid value: -1: must have a positive weight applied to it`,
		"profiles: [{plugins: {placementGenerate: {enabled: [{name: X}]}}}]\n":                                                            `plugins.placementGenerate.enabled: is not supported: pods are scheduled one by one`,
		"profiles: [{plugins: {podGroupPostFilter: {enabled: [{name: X}]}}}]\n":                                                           `plugins.podGroupPostFilter.enabled: is not supported: pods are scheduled one by one`,
		"profiles: [{plugins: {preScore: {disabled: [{name: TaintToleration}]}}}]\n":                                                      `plugins.preScore: plugin "TaintToleration" is not supported at score without preScore`,
		"profiles: [{plugins: {multiPoint: {enabled: [{name: NodeName}, {name: NodeName}]}}}]\n":                                          `enabled[0]: Invalid value: "NodeName": plugin "NodeName" already registered`,
		"profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {apiVersion: kubescheduler.config.k8s.io/v1beta3}}]}]\n":               `args for plugin NodeResourcesFit were not of type NodeResourcesFitArgs.kubescheduler.config.k8s.io, got .kubescheduler.config.k8s.io`,
		"profiles: [{pluginConfig: [{name: VolumeBinding, args: {shape: [{utilization: -1}]}}]}]\n":                                       `shape[0].utilization: Invalid value: -1: not in valid range [0, 100]`,
		"profiles: [{pluginConfig: [{name: VolumeBinding, args: {shape: [{score: -1}]}}]}]\n":                                             `shape[0].score: Invalid value: -1: not in valid range [0, 10]`,
		"profiles: [{pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: -1}}]}]\n":                                     `hardPodAffinityWeight: Invalid value: -1: not in valid range [0, 100]`,
		"profiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultingType: List, defaultConstraints: [{maxSkew: -1}]}}]}]\n":    `maxSkew: Invalid value: -1: not in valid range (0, inf)`,
		"profiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultingType: System, defaultConstraints: [{maxSkew: 1}]}}]}]\n":   `defaultingType: Invalid value: "System": when .defaultConstraints are not empty`,
		"profiles: [{pluginConfig: [{name: NodeResourcesBalancedAllocation, args: {resources: [{name: cpu, weight: -1}]}}]}]\n":           `weight: Invalid value: -1: must be 1`,
		"profiles: [{schedulerName: a, percentageOfNodesToScore: 101}, {schedulerName: b, plugins: {bind: {disabled: [{name: '*'}]}}}]\n": `bind: is not supported without DefaultBinder`,
	} {
		if _, err := schedulerconfig.Open(write(t, header+text), schedulerconfig.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

// TestHowMany: each mistake is told once, and what follows from it is not told.
func TestHowMany(t *testing.T) {
	const constraint = "{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule}"
	for text, want := range map[string]int{
		"profiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultingType: List, defaultConstraints: [" + constraint + ", " + constraint + ", " + constraint + "]}}]}]\n":                         2,
		"profiles: [{schedulerName: a, pluginConfig: [{name: DynamicResources, args: {bindingTimeout: 2s}}]}, {schedulerName: b, pluginConfig: [{name: DynamicResources, args: {bindingTimeout: 1ms}}]}]\n": 1,
		"profiles: [{plugins: {queueSort: {disabled: [{name: '*'}]}, bind: {disabled: [{name: '*'}]}}}]\n":                                                                                                  3,
	} {
		if _, err := schedulerconfig.Open(write(t, header+text), schedulerconfig.Options{}); err == nil || strings.Count(err.Error(), "\n")+1 != want {
			t.Errorf("%s: got %v, want %d mistakes", text, err, want)
		}
	}
	for text, want := range map[string]int{
		"hardPodAffinitySymmetricWeight: 101\n":                              1,
		"priorities: [{name: Some}]\n":                                       1,
		"predicates: [{name: a, argument: {}}, {name: b}]\n":                 2,
		"alwaysCheckAllPredicates: true\nextenders: [{urlPrefix: 'a://'}]\n": 2,
	} {
		if _, err := openPolicy(t, policy+text); err == nil || strings.Count(err.Error(), "\n")+1 != want {
			t.Errorf("%s: got %v, want %d mistakes", text, err, want)
		}
	}
}

// TestRolesOfPolicies: predicates have all roles of their plugins, and priorities none but scores.
func TestRolesOfPolicies(t *testing.T) {
	c, err := openPolicy(t, policy+`predicates: [{name: CheckVolumeBinding}, {name: rack, argument: {labelsPresence: {labels: [rack], presence: true}}}]
priorities: [{name: LeastRequestedPriority, weight: 1}, {name: NodeAffinityPriority, weight: 1}]
`)
	if err != nil {
		t.Fatal(err)
	}
	without := map[string]scheduler.Roles{}
	for _, e := range c.Profiles[0].Plugins {
		without[e.Plugin.Name()] = e.Without & (scheduler.RolePredicate | scheduler.RoleReserver | scheduler.RolePreBinder)
		if local, ok := e.Plugin.(scheduler.Local); e.Plugin.Name() == "NodeLabel" {
			if b, alike := local.Signature([]byte("b"), &corev1.Pod{}); !ok || string(b) != "b" || !alike {
				t.Errorf("labels of nodes tell pods apart: %q, %t", b, alike)
			}
		}
	}
	for name, want := range map[string]scheduler.Roles{
		"VolumeBinding": 0, "NodeLabel": 0, "NodeResourcesLeastAllocated": scheduler.RolePredicate, "NodeAffinity": scheduler.RolePredicate,
	} {
		if got, ok := without[name]; !ok || got != want {
			t.Errorf("%s is there: %t, without %b, want %b", name, ok, got, want)
		}
	}
}
