package features_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/podspec/features"
)

func Example() {
	no := false
	fmt.Println(features.Needed(&corev1.PodSpec{HostNetwork: true, HostUsers: &no}))
	// Output: [UserNamespacesHostNetworkSupport]
}

func TestNeeded(t *testing.T) {
	yes, no := true, false
	rule := []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleActionRestartAllContainers}}
	mount := []corev1.VolumeMount{{Name: "a"}, {Name: "b", BindMountOptions: []string{"noexec"}}}
	for name, c := range map[string]struct {
		spec corev1.PodSpec
		want []string
	}{
		"nothing":                      {corev1.PodSpec{}, nil},
		"the host's network":           {corev1.PodSpec{HostNetwork: true}, nil},
		"the host's users and network": {corev1.PodSpec{HostNetwork: true, HostUsers: &yes}, nil},
		"own users":                    {corev1.PodSpec{HostUsers: &no}, nil},
		"own users, host network":      {corev1.PodSpec{HostNetwork: true, HostUsers: &no}, []string{features.UserNamespacesHostNet}},
		"a restart rule":               {corev1.PodSpec{Containers: []corev1.Container{{RestartPolicyRules: rule}}}, []string{features.RestartAllContainers}},
		"plain mounts":                 {corev1.PodSpec{Containers: []corev1.Container{{VolumeMounts: mount[:1]}}}, nil},
		"a container's mount":          {corev1.PodSpec{Containers: []corev1.Container{{}, {VolumeMounts: mount}}}, []string{features.VolumeBindMountOptions}},
		"an init container's mount":    {corev1.PodSpec{InitContainers: []corev1.Container{{VolumeMounts: mount}}}, []string{features.VolumeBindMountOptions}},
		"an ephemeral container's mount": {corev1.PodSpec{EphemeralContainers: []corev1.EphemeralContainer{{
			EphemeralContainerCommon: corev1.EphemeralContainerCommon{VolumeMounts: mount},
		}}}, []string{features.VolumeBindMountOptions}},
		"all": {corev1.PodSpec{HostNetwork: true, HostUsers: &no, InitContainers: []corev1.Container{{RestartPolicyRules: rule, VolumeMounts: mount}}},
			[]string{features.RestartAllContainers, features.UserNamespacesHostNet, features.VolumeBindMountOptions}},
	} {
		if got := features.Needed(&c.spec); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
