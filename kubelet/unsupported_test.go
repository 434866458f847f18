package kubelet_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/kubelet"
)

// TestUnsupported: a pod that needs something unsupported fails, and its status names it.
func TestUnsupported(t *testing.T) {
	rules := func(action corev1.ContainerRestartRuleAction) corev1.Container {
		return corev1.Container{Name: "c", RestartPolicyRules: []corev1.ContainerRestartRule{{Action: action}}}
	}
	mount := []corev1.VolumeMount{{Name: "v", BindMountOptions: []string{"noexec"}}}
	const restart = "RestartAllContainersOnContainerExits"
	for name, tt := range map[string]struct {
		change func(*corev1.PodSpec)
		lacks  string
	}{
		"nothing":                     {func(*corev1.PodSpec) {}, ""},
		"users of its own":            {func(s *corev1.PodSpec) { s.HostUsers = ptr.To(false) }, ""},
		"the host's users":            {func(s *corev1.PodSpec) { s.HostUsers, s.HostNetwork = ptr.To(true), true }, ""},
		"users on the host's network": {func(s *corev1.PodSpec) { s.HostUsers, s.HostNetwork = ptr.To(false), true }, "UserNamespacesHostNetworkSupport"},
		"the restart of one container": {func(s *corev1.PodSpec) {
			s.Containers[0].RestartPolicyRules = rules(corev1.ContainerRestartRuleActionRestart).RestartPolicyRules
		}, ""},
		"the restart of all": {func(s *corev1.PodSpec) {
			s.Containers[0].RestartPolicyRules = rules("RestartAllContainers").RestartPolicyRules
		}, restart},
		"the restart of all, at first": {func(s *corev1.PodSpec) { s.InitContainers = []corev1.Container{rules("RestartAllContainers")} }, restart},
		"options of mounts":            {func(s *corev1.PodSpec) { s.Containers[0].VolumeMounts = mount }, "VolumeBindMountOptions"},
		"options of mounts, at first":  {func(s *corev1.PodSpec) { s.InitContainers = []corev1.Container{{Name: "i", VolumeMounts: mount}} }, "VolumeBindMountOptions"},
		"a plain mount":                {func(s *corev1.PodSpec) { s.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v"}} }, ""},
		"resource claims":              {func(s *corev1.PodSpec) { s.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}, {Name: "nic"}} }, `resourceClaim "gpu", resourceClaim "nic"`},
		"an emptyDir":                  {func(s *corev1.PodSpec) { s.Volumes = []corev1.Volume{{Name: "v"}} }, ""},
		"options of an ephemeral container's mount": {func(s *corev1.PodSpec) {
			s.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e", VolumeMounts: mount}}}
		}, "VolumeBindMountOptions"},
		"a claim, and one made for it": {func(s *corev1.PodSpec) {
			s.Volumes = []corev1.Volume{
				{Name: "a", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
				{Name: "b", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
			}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, simulated.Options{}, kubelet.Options{}, func(n *node) {
				n.pods.Put(newPod("web", func(p *corev1.Pod) { tt.change(&p.Spec) }))
				n.after(time.Second)
				status := n.pod("web").Status
				if tt.lacks == "" {
					if status.Reason != "" || status.Phase == corev1.PodFailed {
						t.Errorf("the pod is %s, %s: %s", status.Phase, status.Reason, status.Message)
					}
					return
				}
				want := "Pod was rejected: Pod requires node features that are not available: " + tt.lacks
				if status.Phase != corev1.PodFailed || status.Reason != "PodFeatureUnsupported" || status.Message != want {
					t.Errorf("the pod is %s, %s: %s, want %s", status.Phase, status.Reason, status.Message, want)
				}
				n.expectEventsAbout("PodFeature", "0s web Warning PodFeatureUnsupported: Pod requires node features that are not available: "+tt.lacks)
			})
		})
	}
}

// TestHookOfTheOldKind: a tcpSocket hook, which was never implemented, fails.
func TestHookOfTheOldKind(t *testing.T) {
	simulate(t, simulated.Options{}, kubelet.Options{}, func(n *node) {
		n.pods.Put(newPod("web", func(p *corev1.Pod) {
			p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{TCPSocket: &corev1.TCPSocketAction{}}}
		}))
		n.after(time.Second)
		n.expectEventsAbout("Hook",
			"0s web spec.containers{main} Warning FailedPostStartHook: PostStartHook failed",
			"0s web spec.containers{main} Normal Killing: FailedPostStartHook")
	})
}
