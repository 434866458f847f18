package plugins_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-helpers/nodedeclaredfeatures"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/plugins"
)

func declaring(features ...string) *corev1.Node {
	n := node("n", "pods", "10")
	n.Status.DeclaredFeatures = features
	return n
}

func TestNodeDeclaredFeatures(t *testing.T) {
	rules := func(action corev1.ContainerRestartRuleAction) corev1.Container {
		return corev1.Container{RestartPolicyRules: []corev1.ContainerRestartRule{{Action: action}}}
	}
	mounting := func(options ...string) []corev1.VolumeMount {
		return []corev1.VolumeMount{{}, {BindMountOptions: options}}
	}
	all := []corev1.Container{rules(corev1.ContainerRestartRuleActionRestart), rules(corev1.ContainerRestartRuleActionRestartAllContainers)}
	tests := map[string]struct {
		change func(*corev1.PodSpec)
		needs  []string
	}{
		"nothing":                  {func(*corev1.PodSpec) {}, nil},
		"to restart one container": {func(s *corev1.PodSpec) { s.Containers = all[:1] }, nil},
		"to restart all":           {func(s *corev1.PodSpec) { s.Containers = all }, []string{"RestartAllContainersOnContainerExits"}},
		"to restart all at the start": {func(s *corev1.PodSpec) { s.InitContainers = all },
			[]string{"RestartAllContainersOnContainerExits"}},
		"users":              {func(s *corev1.PodSpec) { s.HostUsers = ptr.To(false) }, nil},
		"the host's network": {func(s *corev1.PodSpec) { s.HostNetwork = true }, nil},
		"the host's users":   {func(s *corev1.PodSpec) { s.HostNetwork, s.HostUsers = true, ptr.To(true) }, nil},
		"users on its network": {func(s *corev1.PodSpec) { s.HostNetwork, s.HostUsers = true, ptr.To(false) },
			[]string{"UserNamespacesHostNetworkSupport"}},
		"plain mounts": {func(s *corev1.PodSpec) { s.Containers[0].VolumeMounts = mounting() }, nil},
		"bind options": {func(s *corev1.PodSpec) { s.Containers[0].VolumeMounts = mounting("noexec") }, []string{"VolumeBindMountOptions"}},
		"of the first": {func(s *corev1.PodSpec) { s.InitContainers = []corev1.Container{{VolumeMounts: mounting("noexec")}} }, []string{"VolumeBindMountOptions"}},
		"for debugging": {func(s *corev1.PodSpec) {
			s.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{VolumeMounts: mounting("noexec")}}}
		}, []string{"VolumeBindMountOptions"}},
		"two": {func(s *corev1.PodSpec) { s.Containers, s.HostNetwork, s.HostUsers = all, true, ptr.To(false) },
			[]string{"RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"}},
	}
	release := version.MustParse("1.37.1")
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := edit(pod(), tt.change)
			upstream, err := nodedeclaredfeatures.DefaultFramework.InferForPodScheduling(&nodedeclaredfeatures.PodInfo{Spec: &p.Spec}, release)
			if err != nil || upstream.IsEmpty() != (len(tt.needs) == 0) {
				t.Errorf("upstream finds %v: %v", upstream, err)
			}
			var none *scheduler.Refusal
			if len(tt.needs) > 0 {
				none = never("node(s) didn't match Pod's required features")
			}
			rows := map[string]expect{
				"declared":   {p, scheduler.NewNodeInfo(declaring(append([]string{"A"}, tt.needs...)...)), nil},
				"undeclared": {p, scheduler.NewNodeInfo(declaring("A")), none},
			}
			if len(tt.needs) > 1 {
				rows["one of two"] = expect{p, scheduler.NewNodeInfo(declaring(tt.needs[0])), none}
			}
			check(t, plugins.NodeDeclaredFeatures{}, rows)
			prepared, err := plugins.NodeDeclaredFeatures{}.Prepare(p, nil)
			if err != nil || prepared.Skip != (len(tt.needs) == 0) {
				t.Errorf("skips %v, error %v", prepared.Skip, err)
			}
		})
	}
}

func TestHintsOfDeclaredFeatures(t *testing.T) {
	p := edit(pod(), func(s *corev1.PodSpec) { s.HostNetwork, s.HostUsers = true, ptr.To(false) })
	const feature = "UserNamespacesHostNetworkSupport"
	updated := func(old, n *corev1.Node) scheduler.Event {
		return scheduler.Event{Kind: scheduler.NodeUpdated, Change: scheduler.NodeChange(old, n), OldNode: old, Node: n}
	}
	profile := scheduler.Profile{Plugins: plugins.Default()}
	for name, tt := range map[string]struct {
		event scheduler.Event
		want  bool
	}{
		"a node with it came":     {scheduler.Event{Kind: scheduler.NodeAdded, Node: declaring(feature)}, true},
		"a node without it came":  {scheduler.Event{Kind: scheduler.NodeAdded, Node: declaring("A")}, false},
		"a node declares it":      {updated(declaring(), declaring(feature)), true},
		"a node declares another": {updated(declaring(feature), declaring("A", feature)), false},
		"a node went":             {scheduler.Event{Kind: scheduler.NodeDeleted, OldNode: declaring()}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := profile.MayHelp(p, []string{"NodeDeclaredFeatures"}, tt.event); got != tt.want {
				t.Errorf("MayHelp = %v", got)
			}
		})
	}
	if scheduler.NodeChange(declaring(), declaring(feature)) != scheduler.NodeFeaturesChanged || scheduler.NodeChange(declaring("A"), declaring("A")) != 0 {
		t.Error("a change of declared features is not reported")
	}
}
