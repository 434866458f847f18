package schedulerconfig_test

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/plugins"
	"github.com/keelson-dev/keelson/scheduler/schedulerconfig"
)

func openPolicy(t *testing.T, text string) (*schedulerconfig.Config, error) {
	t.Helper()
	return schedulerconfig.OpenPolicy(write(t, text), schedulerconfig.Options{})
}

const (
	policy = "apiVersion: v1\nkind: Policy\n"
	// The plugins that are always there, without those that predicates and priorities put between them.
	first, last = "SchedulingGates 0, ", "DynamicResources 0, DefaultPreemption 0, NodeDeclaredFeatures 0"
)

func TestPolicy(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"default": {"", first + "NodeUnschedulable 0, NodeResourcesFit 0, NodeName 0, NodePorts 0, NodeAffinity 1, VolumeRestrictions 0, TaintToleration 1, " +
			"NodeVolumeLimits 0, VolumeBinding 0, VolumeZone 0, PodTopologySpread 2, InterPodAffinity 1"},
		"no predicates": {"predicates: []\npriorities: []\n", first + "NodeUnschedulable 0, TaintToleration 0"},
		"predicates": {`predicates:
- {name: PodFitsPorts}
- {name: PodFitsResources}
- {name: MatchNodeSelector}
- {name: HostName}
- {name: NoDiskConflict}
- {name: MaxGCEPDVolumeCount}
- {name: MaxEBSVolumeCount}
- {name: NoVolumeZoneConflict}
priorities: []
`, first + "NodeUnschedulable 0, NodeName 0, NodePorts 0, NodeAffinity 0, NodeResourcesFit 0, VolumeRestrictions 0, TaintToleration 0, NodeVolumeLimits 0, VolumeZone 0"},
		"priorities": {`predicates: []
priorities:
- {name: NodeAffinityPriority, weight: 3}
- {name: TaintTolerationPriority, weight: 4}
- {name: EqualPriority, weight: 7}
- {name: MostRequestedPriority, weight: 5}
- {name: LeastRequestedPriority, weight: 6}
- {name: BalancedResourceAllocation, weight: 2}
- {name: ServiceSpreadingPriority, weight: 8}
`, "NodeUnschedulable 0, TaintToleration 4"},
	} {
		c1, err := openPolicy(t, policy+c.text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := ", " + strings.Join(describe(c1.Profiles[0]), ", ") + ", "
		for _, want := range []string{c.want, last} {
			at := 0
			for _, one := range strings.Split(want, ", ") {
				i := strings.Index(got[at:], ", "+one+", ")
				if one != "" && i < 0 {
					t.Errorf("%s: %s\nwant %s after that", name, got, one)
				}
				at += max(i, 0)
			}
		}
		if name == "no predicates" && strings.Contains(got, "NodeResourcesFit") || name != "priorities" && strings.Contains(got, "MostAllocated") {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// weights returns those of a profile.
func weights(c *schedulerconfig.Config) map[string]int64 {
	all := map[string]int64{}
	for _, e := range c.Profiles[0].Plugins {
		if e.Weight > 0 {
			all[e.Plugin.Name()] = e.Weight
		}
	}
	return all
}

func TestWeightsOfPolicies(t *testing.T) {
	c, err := openPolicy(t, policy)
	if err != nil {
		t.Fatal(err)
	}
	same := func(got map[string]int64, want map[string]int64) {
		t.Helper()
		if len(got) != len(want) {
			t.Errorf("got %v, want %v", got, want)
		}
		for name, weight := range want {
			if got[name] != weight {
				t.Errorf("%s has weight %d, want %d", name, got[name], weight)
			}
		}
	}
	same(weights(c), map[string]int64{
		"NodeResourcesBalancedAllocation": 1, "PodTopologySpread": 2, "ImageLocality": 1, "InterPodAffinity": 1, "NodeResourcesLeastAllocated": 1,
		"NodeAffinity": 1, "NodePreferAvoidPods": 10000, "TaintToleration": 1,
	})
	if spread := find[plugins.PodTopologySpread](c.Profiles[0]); spread.Defaults != nil {
		t.Errorf("no default constraints: %+v", spread)
	}
	c, err = openPolicy(t, policy+`hardPodAffinitySymmetricWeight: 10
priorities:
- {name: MostRequestedPriority, weight: 5}
- {name: LeastRequestedPriority, weight: 6}
- {name: EvenPodsSpreadPriority, weight: 8}
- {name: mine, weight: 2, argument: {labelPreference: {label: good, presence: true}}}
- {name: yours, weight: 2, argument: {labelPreference: {label: bad, presence: false}}}
- {name: packing, weight: 9, argument: {requestedToCapacityRatioArguments: {shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}], resources: [{name: cpu, weight: 1}]}}}
`)
	if err != nil {
		t.Fatal(err)
	}
	same(weights(c), map[string]int64{
		"NodeResourcesMostAllocated": 5, "NodeResourcesLeastAllocated": 6, "PodTopologySpread": 8, "NodeLabel": 4, "RequestedToCapacityRatio": 9,
	})
	if affinity := find[plugins.InterPodAffinity](c.Profiles[0]); affinity.HardPodAffinityWeight == nil || *affinity.HardPodAffinityWeight != 10 {
		t.Errorf("weight of required affinity: %+v", affinity)
	}
	if spread := find[plugins.PodTopologySpread](c.Profiles[0]); spread.Defaults == nil || len(spread.Defaults) > 0 {
		t.Errorf("default constraints without SelectorSpreadPriority: %+v", spread)
	}
}

// TestLabels: predicates and priorities about labels.
func TestLabels(t *testing.T) {
	c, err := openPolicy(t, policy+`predicates:
- {name: rack, argument: {labelsPresence: {labels: [rack], presence: true}}}
- {name: retiring, argument: {labelsPresence: {labels: [retiring], presence: false}}}
priorities:
- {name: ssd, weight: 1, argument: {labelPreference: {label: ssd, presence: true}}}
- {name: old, weight: 1, argument: {labelPreference: {label: old, presence: false}}}
`)
	if err != nil {
		t.Fatal(err)
	}
	var nodes []*corev1.Node
	for name, labels := range map[string]string{"a": "rack", "b": "", "c": "rack retiring", "d": "rack ssd", "e": "rack ssd old"} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
		for _, l := range strings.Fields(labels) {
			n.Labels[l] = "x"
		}
		nodes = append(nodes, n)
	}
	d := c.Profiles[0].Schedule(&corev1.Pod{}, scheduler.NewSnapshot(nodes, nil))
	if d.Err != nil || d.Node != "d" {
		t.Errorf("%v", d)
	}
	for i, want := range []int64{100, 0, 0, 200, 100} {
		if v := d.Verdicts[i]; v.Total != want || (v.Refusal != nil) != (want == 0) || v.Refusal != nil && v.Refusal.Error() != "node(s) didn't have the requested labels" {
			t.Errorf("%s: %+v, want a total of %d", v.Node, v, want)
		}
	}
	added := func(n *corev1.Node) bool {
		return c.Profiles[0].MayHelp(&corev1.Pod{}, []string{"NodeLabel"}, scheduler.Event{Kind: scheduler.NodeAdded, Node: n})
	}
	passing := "ade"
	for _, n := range nodes {
		if got := added(n); got != (strings.Contains(passing, n.Name)) {
			t.Errorf("the new node %s helps: %t", n.Name, got)
		}
	}
}

// TestAvoidPods: nodes may ask in an annotation not to get the pods of a controller.
func TestAvoidPods(t *testing.T) {
	c, err := openPolicy(t, policy+"predicates: []\npriorities: [{name: NodePreferAvoidPodsPriority, weight: 1}]\n")
	if err != nil {
		t.Fatal(err)
	}
	node := func(name, annotation string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{corev1.PreferAvoidPodsAnnotationKey: annotation}}}
	}
	const avoid = `{"preferAvoidPods":[{"podSignature":{"podController":{"kind":"ReplicaSet","uid":"u"}}}]}`
	nodes := []*corev1.Node{node("a", avoid), node("b", "{"), node("c", strings.Replace(avoid, `"u"`, `"v"`, 1))}
	yes := true
	owned := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", UID: "u", Controller: &yes}}}}
	nodes = append(nodes, node("d", strings.Replace(avoid, "ReplicaSet", "StatefulSet", 1)))
	set := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "StatefulSet", UID: "u", Controller: &yes}}}}
	nodes = append(nodes, node("e", strings.Replace(avoid, "ReplicaSet", "ReplicationController", 1)), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "f"}})
	replicated := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicationController", UID: "u", Controller: &yes}}}}
	for pod, want := range map[*corev1.Pod][]int64{
		owned: {0, 100, 100, 100, 100, 100}, set: {100, 100, 100, 100, 100, 100}, replicated: {100, 100, 100, 100, 0, 100}, {}: {100, 100, 100, 100, 100, 100},
	} {
		d := c.Profiles[0].Schedule(pod, scheduler.NewSnapshot(nodes, nil))
		for i, v := range d.Verdicts {
			if v.Total != want[i] {
				t.Errorf("%s: %d, want %d", v.Node, v.Total, want[i])
			}
		}
	}
}

func TestExtendersOfPolicies(t *testing.T) {
	c, err := openPolicy(t, `{"kind": "Policy", "apiVersion": "v1", "predicates": [{"name": "GeneralPredicates"}], "extenders": [
  {"urlPrefix": "http://a", "filterVerb": "f", "prioritizeVerb": "p", "weight": 3, "enableHttps": false, "httpTimeout": 2000000000, "ignorable": true},
  {"urlPrefix": "http://b", "preemptVerb": "x", "managedResources": [{"name": "example.com/gpu", "ignoredByScheduler": true}]}]}`)
	if err != nil {
		t.Fatal(err)
	}
	p := c.Profiles[0]
	n := len(p.Plugins)
	if p.Plugins[n-2].Plugin.Name() != "http://b" || p.Plugins[n-1].Plugin.Name() != "http://a" || p.Plugins[n-1].Weight != 3 || p.Plugins[n-2].Weight != 0 {
		t.Errorf("extenders %v", describe(p))
	}
	if fit := find[plugins.NodeResourcesFit](p); len(fit.Ignored) != 1 || fit.Ignored[0] != "example.com/gpu" {
		t.Errorf("ignored resources: %+v", fit)
	}
	if preemption := find[plugins.DefaultPreemption](p); len(preemption.Reviewers) != 1 {
		t.Errorf("preemption: %+v", preemption)
	}
	if c.MaxBackoff != 10*time.Second || !c.Election.Enabled || c.Client.QPS != 50 {
		t.Errorf("defaults: %+v", c)
	}
}

func TestMistakesInPolicies(t *testing.T) {
	for text, want := range map[string]string{
		"hardPodAffinitySymmetricWeight: -1\n":                                                                                         `3: hardPodAffinitySymmetricWeight: Invalid value: -1: not in valid range [0-100]`,
		"priorities:\n- {name: ImageLocalityPriority, weight: 2147483647}\n":                                                           `4: priorities[0].weight: Invalid value: 2147483647: priority ImageLocalityPriority should have a positive weight applied to it or it has overflown`,
		"predicates:\n- name: a\n  argument: {serviceAffinity: {}, labelsPresence: {}}\n":                                              `5: predicates[0].argument: exactly 1 predicate argument is required, numArgs: 2, predicate a`,
		"predicates:\n- name: CheckServiceAffinity\n":                                                                                  `4: predicates[0]: ServiceAffinity is not supported`,
		"predicates:\n- name: CheckNodeLabelPresence\n":                                                                                `4: predicates[0].name: Invalid value: "CheckNodeLabelPresence": predicate type not found for "CheckNodeLabelPresence"`,
		"priorities:\n- {name: a, weight: 1, argument: {serviceAntiAffinity: {label: zone}, requestedToCapacityRatioArguments: {}}}\n": `4: priorities[0]: ServiceAntiAffinity is not supported`,
		"alwaysCheckAllPredicates: true\n":                                                                                             `3: alwaysCheckAllPredicates: true is not supported`,
		"hardPodAffinitySymmetricWeight: 101\n":                                                                                        `3: hardPodAffinitySymmetricWeight: Invalid value: 101: not in valid range [0-100]`,
		"predicates:\n- name: Some\n":                                                                                                  `4: predicates[0].name: Invalid value: "Some": predicate type not found for "Some"`,
		"priorities:\n- {name: Some, weight: 1}\n":                                                                                     `4: priorities[0].name: Invalid value: "Some": priority type not found for "Some"`,
		"priorities:\n- name: ImageLocalityPriority\n":                                                                                 `4: priorities[0].weight: Invalid value: 0: priority ImageLocalityPriority should have a positive weight applied to it or it has overflown`,
		"predicates:\n- name: a\n  argument: {}\n":                                                                                     `5: predicates[0].argument: exactly 1 predicate argument is required, numArgs: 0, predicate a`,
		"predicates:\n- name: a\n  argument: {serviceAffinity: {labels: [zone]}}\n":                                                    `4: predicates[0]: ServiceAffinity is not supported`,
		"priorities:\n- {name: a, weight: 1, argument: {serviceAntiAffinity: {label: zone}}}\n":                                        `4: priorities[0]: ServiceAntiAffinity is not supported`,
		"priorities:\n- {name: a, weight: 1, argument: {}}\n":                                                                          `priorities[0].argument: exactly 1 priority argument is required, numArgs: 0, priority a`,
		"priorities:\n- {name: a, weight: 1, argument: {requestedToCapacityRatioArguments: {}}}\n":                                     `priorities[0].argument.requestedToCapacityRatioArguments.requestedToCapacityRatio.shape: Required value`,
		"priorities:\n- {name: a, weight: 1, argument: {labelPreference: {label: x}}}\n- {name: b, weight: 2, argument: {labelPreference: {label: x}}}\n": `5: priorities[1].weight: Invalid value: 2: LabelPreference  priority "b" has a different weight with "a"`,
		"predicate: []\n": `3: unknown field "predicate"`,
		"extenders:\n- {urlPrefix: 'http://a', prioritizeVerb: p}\n": `4: extenders[0].weight: Invalid value: 0: must have a positive weight applied to it`,
	} {
		_, err := openPolicy(t, policy+text)
		var e *schedulerconfig.Error
		if err == nil || !errors.As(err, &e) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v\nwant %s", text, err, want)
		}
	}
	if _, err := openPolicy(t, "apiVersion: v2\nkind: Policy\n"); err == nil || !strings.Contains(err.Error(), "want apiVersion v1 and kind Policy") {
		t.Errorf("another version: %v", err)
	}
}

// TestWeightsTwice: of several weights of one plugin the greatest counts; other priorities have a plugin of their own, and of
// those the last one.
func TestWeightsTwice(t *testing.T) {
	for text, want := range map[string]map[string]int64{
		"{name: ServiceSpreadingPriority, weight: 8}, {name: EvenPodsSpreadPriority, weight: 3}": {"PodTopologySpread": 8},
		"{name: EvenPodsSpreadPriority, weight: 3}, {name: SelectorSpreadPriority, weight: 8}":   {"PodTopologySpread": 8},
		"{name: LeastRequestedPriority, weight: 8}, {name: LeastRequestedPriority, weight: 3}":   {"NodeResourcesLeastAllocated": 3},
		"{name: ImageLocalityPriority, weight: 2147483646}":                                      {"ImageLocality": 2147483646},
		"{name: NodeAffinityPriority, weight: 3}, {name: TaintTolerationPriority, weight: 4}":    {"NodeAffinity": 3, "TaintToleration": 4},
		"{name: InterPodAffinityPriority, weight: 5}":                                            {"InterPodAffinity": 5},
		"{name: BalancedResourceAllocation, weight: 6}":                                          {"NodeResourcesBalancedAllocation": 6},
		"{name: EqualPriority}": {},
		"{name: a, weight: 2000000000, argument: {labelPreference: {label: a}}}, {name: b, weight: 2000000000, argument: {labelPreference: {label: b}}}": {"NodeLabel": 2147483647},
	} {
		c, err := openPolicy(t, policy+"hardPodAffinitySymmetricWeight: 0\npredicates: [{name: NoDiskConflict, argument: {serviceAffinity: {}}}]\npriorities: ["+text+"]\n")
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := weights(c); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
	if _, err := openPolicy(t, policy+"hardPodAffinitySymmetricWeight: 100\n"); err != nil {
		t.Error(err)
	}
}

// TestOnePreference: a node is good if it meets a single preference, and new labels can make it possible.
func TestOnePreference(t *testing.T) {
	c, err := openPolicy(t, policy+`predicates: [{name: rack, argument: {labelsPresence: {labels: [rack], presence: true}}}]
priorities: [{name: ssd, weight: 3, argument: {labelPreference: {label: ssd, presence: true}}}]
`)
	if err != nil {
		t.Fatal(err)
	}
	node := func(name string, labels map[string]string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	}
	ssd, none := node("a", map[string]string{"rack": "", "ssd": ""}), node("b", map[string]string{"rack": ""})
	d := c.Profiles[0].Schedule(&corev1.Pod{}, scheduler.NewSnapshot([]*corev1.Node{ssd, none}, nil))
	if d.Err != nil || d.Verdicts[0].Total != 300 || d.Verdicts[1].Total != 0 {
		t.Errorf("%+v, %v", d.Verdicts, d.Err)
	}
	for change, want := range map[scheduler.Change]bool{scheduler.NodeLabelsChanged: true, scheduler.NodeTaintsChanged: false} {
		e := scheduler.Event{Kind: scheduler.NodeUpdated, Change: change, OldNode: node("b", nil), Node: none}
		if c.Profiles[0].MayHelp(&corev1.Pod{}, []string{"NodeLabel"}, e) != want {
			t.Errorf("a change of %b helps: %t", change, !want)
		}
	}
}
