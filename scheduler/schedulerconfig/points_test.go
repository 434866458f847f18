package schedulerconfig_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/schedulerconfig"
)

// everything is a plugin of all points but the order of the queue.
type everything struct{}

func (everything) Name() string                                              { return "Everything" }
func (everything) Holds(*corev1.Pod) *scheduler.Refusal                      { return nil }
func (everything) Check(*corev1.Pod, *scheduler.NodeInfo) *scheduler.Refusal { return nil }
func (everything) Score(*corev1.Pod, *scheduler.NodeInfo) int64              { return 0 }
func (everything) PreBind(context.Context, *corev1.Pod, string) error        { return nil }
func (everything) Bind(context.Context, *corev1.Pod, string) error           { return nil }
func (everything) PostBind(context.Context, *corev1.Pod, string)             {}
func (everything) Permit(context.Context, *corev1.Pod, string) (*scheduler.Wait, error) {
	return nil, nil
}

func (everything) Prepare(*corev1.Pod, *scheduler.Snapshot) (scheduler.Prepared, error) {
	return scheduler.Prepared{}, nil
}

func (everything) Preempt(context.Context, *scheduler.Trial) (*scheduler.Nomination, error) {
	return nil, nil
}

func (everything) PrepareScores(*corev1.Pod, *scheduler.Snapshot, []*scheduler.NodeInfo) (scheduler.PreparedScores, error) {
	return scheduler.PreparedScores{}, nil
}

func (everything) Reserve(context.Context, *corev1.Pod, string) (func(), error) { return nil, nil }

// TestRoles: a plugin that is disabled at a point does not have its role there.
func TestRoles(t *testing.T) {
	without := map[string]scheduler.Roles{
		"preEnqueue": scheduler.RoleGate, "filter": scheduler.RolePredicate, "postFilter": scheduler.RolePreemptor, "reserve": scheduler.RoleReserver,
		"permit": scheduler.RolePermitter, "preBind": scheduler.RolePreBinder, "bind": scheduler.RoleBinder, "postBind": scheduler.RolePostBinder,
		"filter preFilter": scheduler.RolePredicate | scheduler.RolePreparer, "": 0, "score": 0, "score preScore": 0,
	}
	o := schedulerconfig.Options{Plugins: []scheduler.Plugin{everything{}}}
	for disabled, want := range without {
		text := header + strings.Replace(only, "{name: NodeName}", "{name: Everything, weight: 6}", 1)
		for _, point := range strings.Fields(disabled) {
			text += "    " + point + ": {disabled: [{name: Everything}]}\n"
		}
		c, err := schedulerconfig.Open(write(t, text), o)
		if err != nil {
			t.Errorf("without %s: %v", disabled, err)
			continue
		}
		weight := int64(6)
		if strings.Contains(disabled, "score") {
			weight = 0
		}
		if e := c.Profiles[0].Plugins[0]; e.Plugin.Name() != "Everything" || e.Without != want || e.Weight != weight {
			t.Errorf("without %s: %+v, want it without %b and of weight %d", disabled, e, want, weight)
		}
	}
	for disabled, want := range map[string]string{
		"preFilter": `preFilter: plugin "Everything" is not supported at filter without preFilter`,
		"preScore":  `preScore: plugin "Everything" is not supported at score without preScore`,
	} {
		text := header + strings.Replace(only, "{name: NodeName}", "{name: Everything}", 1) + "    " + disabled + ": {disabled: [{name: Everything}]}\n"
		if _, err := schedulerconfig.Open(write(t, text), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestPointsOfOwnPlugins: a plugin can be enabled at the points of what it implements, and nowhere else.
func TestPointsOfOwnPlugins(t *testing.T) {
	points := []string{"preEnqueue", "preFilter", "filter", "postFilter", "preScore", "score", "reserve", "permit", "preBind", "bind", "postBind"}
	for name, c := range map[string]struct {
		plugin scheduler.Plugin
		only   []string
	}{
		"everything": {everything{}, points}, "a binder": {own(), []string{"bind"}}, "a winnower": {winnower{}, []string{"filter"}},
	} {
		for _, point := range append(slices.Clone(points), "queueSort") {
			text := header + strings.Replace(only, "{name: NodeName}", "{name: NodePorts}", 1) + "    " + point + ": {enabled: [{name: " + c.plugin.Name() + "}]}\n"
			_, err := schedulerconfig.Open(write(t, text), schedulerconfig.Options{Plugins: []scheduler.Plugin{c.plugin}})
			extends := err == nil || !strings.Contains(err.Error(), "does not extend "+strings.ToUpper(point[:1])+point[1:]+"Plugin plugin")
			if extends != slices.Contains(c.only, point) {
				t.Errorf("%s at %s: %v", name, point, err)
			}
		}
	}
}

// TestOrders: the order of a point counts where it matters.
func TestOrders(t *testing.T) {
	const name = "    filter: {enabled: [{name: NodeAffinity}, {name: NodeName}]}\n"
	for text, want := range map[string]string{
		name: "NodeAffinity 5, NodeName 0",
		"    filter: {disabled: [{name: NodePorts}], enabled: [{name: NodeAffinity}]}\n":                                                                "NodeAffinity 5, NodeName 0", // in place of what is enabled everywhere
		name + "    preFilter: {enabled: [{name: NodeName}, {name: NodeAffinity}]}\n":                                                                   "NodeAffinity 5, NodeName 0",
		"    preFilter: {enabled: [{name: NodeAffinity}, {name: NodeName}]}\n":                                                                          "NodeName 0, NodeAffinity 5",
		"    multiPoint: {enabled: [{name: PrioritySort}, {name: DefaultBinder}, {name: NodeAffinity}, {name: NodeName}], disabled: [{name: \"*\"}]}\n": "NodeAffinity 1, NodeName 0",
		"    score: {enabled: [{name: ImageLocality, weight: 2}, {name: NodeAffinity}]}\n":                                                              "NodeName 0, NodeAffinity 1, ImageLocality 2", // the weights of the point alone count there
	} {
		whole := only + text
		if strings.Contains(text, "multiPoint") {
			whole = "profiles:\n- plugins:\n" + text
		}
		if got := strings.Join(describe(open(t, whole).Profiles[0]), ", "); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	const preBind = "    reserve: {enabled: [{name: VolumeBinding}, {name: DynamicResources}]}\n    preBind: {enabled: [{name: DynamicResources}, {name: VolumeBinding}]}\n"
	_, err := schedulerconfig.Open(write(t, header+only+preBind), schedulerconfig.Options{})
	if err == nil || !strings.Contains(err.Error(), `profiles[0].plugins: plugins ["VolumeBinding" "DynamicResources"] come in different orders at different points, which is not supported`) {
		t.Errorf("different orders: %v", err)
	}
}

// TestOneMistake: what follows from a mistake is not reported as another.
func TestOneMistake(t *testing.T) {
	const enabled = "{name: PrioritySort}, {name: DefaultBinder}"
	mistakes := map[string]string{
		"profiles: [{plugins: {multiPoint: {enabled: [{name: None}, {name: None}]}}}]\n":                                                               "does not exist",
		"profiles: [{pluginConfig: [{name: InterPodAffinity, args: {unknown: 1, hardPodAffinityWeight: 101}}]}]\n":                                     "unknown field",
		"profiles: [{pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 101, ignorePreferredTermsOfExistingPods: 1}}]}]\n":          "cannot unmarshal",
		"profiles: [{pluginConfig: [{name: InterPodAffinity, args: {kind: Other, hardPodAffinityWeight: 101}}]}]\n":                                    "args for plugin InterPodAffinity were not of type",
		"profiles: [{pluginConfig: [{name: InterPodAffinity, args: {kind: [], hardPodAffinityWeight: 101}}]}]\n":                                       "cannot unmarshal",
		"profiles: [{pluginConfig: [{name: VolumeBinding, args: {shape: [{utilization: 9}, {utilization: 8}, {utilization: 7}]}}]}]\n":                 "values must be sorted",
		"profiles: [{plugins: {multiPoint: {disabled: [{name: '*'}], enabled: [" + enabled + "]}, reserve: {enabled: [{name: VolumeBinding}]}}}]\n":    "at one of reserve and preBind",
		"profiles: [{plugins: {multiPoint: {disabled: [{name: '*'}], enabled: [" + enabled + "]}, preBind: {enabled: [{name: DynamicResources}]}}}]\n": "at one of reserve and preBind",
	}
	for _, name := range []string{"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"} {
		mistakes["profiles: [{plugins: {multiPoint: {enabled: [{name: "+name+"}]}}}]\n"] = "was invalid in version"
	}
	for _, text := range slices.Sorted(maps.Keys(mistakes)) {
		want := mistakes[text]
		_, err := schedulerconfig.Open(write(t, header+text), schedulerconfig.Options{})
		if err == nil || strings.Count(err.Error(), want) != strings.Count(err.Error(), "\n")+1 {
			t.Errorf("%s: got %v, want %s and nothing else", text, err, want)
		}
	}
}
