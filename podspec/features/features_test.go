package features_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-helpers/nodedeclaredfeatures"

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

// What an update needs is what upstream's library says.
func TestNeededForUpdate(t *testing.T) {
	quantity := func(s string) *resource.Quantity { q := resource.MustParse(s); return &q }
	cpu := func(s string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": *quantity(s)}}
	}
	resources := func(s string) *corev1.ResourceRequirements { r := cpu(s); return &r }
	always := corev1.ContainerRestartPolicyAlways
	volume := func(name string, medium corev1.StorageMedium, size *resource.Quantity) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: medium, SizeLimit: size}}}
	}
	volumes := func(all ...corev1.Volume) corev1.PodSpec { return corev1.PodSpec{Volumes: all} }
	memory := corev1.StorageMediumMemory
	for name, c := range map[string]struct {
		old, spec corev1.PodSpec
		want      []string
	}{
		"nothing":              {corev1.PodSpec{}, corev1.PodSpec{}, nil},
		"the same of the pod":  {corev1.PodSpec{Resources: resources("1")}, corev1.PodSpec{Resources: resources("1000m")}, nil},
		"more for the pod":     {corev1.PodSpec{Resources: resources("1")}, corev1.PodSpec{Resources: resources("2")}, []string{features.ResizePods}},
		"none for the pod yet": {corev1.PodSpec{}, corev1.PodSpec{Resources: resources("2")}, []string{features.ResizePods}},
		"a container":          {corev1.PodSpec{Containers: []corev1.Container{{Resources: cpu("1")}}}, corev1.PodSpec{Containers: []corev1.Container{{Resources: cpu("2")}}}, nil},
		"a sidecar": {
			corev1.PodSpec{InitContainers: []corev1.Container{{Resources: cpu("1"), RestartPolicy: &always}}},
			corev1.PodSpec{InitContainers: []corev1.Container{{Resources: cpu("2"), RestartPolicy: &always}}}, nil,
		},
		"an init container": {
			corev1.PodSpec{InitContainers: []corev1.Container{{}, {Resources: cpu("1")}, {}}},
			corev1.PodSpec{InitContainers: []corev1.Container{{}, {Resources: cpu("2")}, {Resources: cpu("2")}}}, []string{features.ResizeInitContainers},
		},
		"a volume in memory":       {volumes(volume("v", memory, quantity("1"))), volumes(volume("v", memory, quantity("2"))), []string{features.ResizeMemoryBackedVolumes}},
		"the same size":            {volumes(volume("v", memory, quantity("1"))), volumes(volume("v", memory, quantity("1000m"))), nil},
		"a volume on disk":         {volumes(volume("v", "", quantity("1"))), volumes(volume("v", "", quantity("2"))), nil},
		"another volume":           {volumes(volume("v", memory, quantity("1"))), volumes(volume("w", memory, quantity("2"))), nil},
		"a size where none was":    {volumes(volume("v", memory, nil)), volumes(volume("v", memory, quantity("2"))), nil},
		"no size any more":         {volumes(volume("v", memory, quantity("1"))), volumes(volume("v", memory, nil)), nil},
		"a volume more":            {volumes(volume("v", memory, quantity("1"))), volumes(volume("v", memory, quantity("2")), volume("w", memory, nil)), nil},
		"a volume of another sort": {volumes(volume("v", memory, quantity("1"))), volumes(corev1.Volume{Name: "v"}), nil},
		"an init container as before": {
			corev1.PodSpec{InitContainers: []corev1.Container{{Resources: cpu("1")}}}, corev1.PodSpec{InitContainers: []corev1.Container{{Resources: cpu("1")}}}, nil,
		},
		"the second, of all things": {
			corev1.PodSpec{Resources: resources("1"), InitContainers: []corev1.Container{{Resources: cpu("1")}}, Volumes: []corev1.Volume{volume("u", memory, quantity("1")), volume("v", memory, quantity("1"))}},
			corev1.PodSpec{Resources: resources("2"), InitContainers: []corev1.Container{{Resources: cpu("2")}}, Volumes: []corev1.Volume{volume("u", memory, quantity("1")), volume("v", memory, quantity("2"))}},
			[]string{features.ResizePods, features.ResizeInitContainers, features.ResizeMemoryBackedVolumes},
		},
	} {
		got := features.NeededForUpdate(&c.spec, &c.old)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		upstream, err := nodedeclaredfeatures.DefaultFramework.InferForPodUpdate(&nodedeclaredfeatures.PodInfo{Spec: &c.old}, &nodedeclaredfeatures.PodInfo{Spec: &c.spec}, version.MajorMinor(1, 37))
		if err != nil {
			t.Fatal(err)
		}
		if names, err := nodedeclaredfeatures.DefaultFramework.Unmap(upstream); err != nil || !slices.Equal(names, got) {
			t.Errorf("%s: %v, upstream %v, %v", name, got, names, err)
		}
	}
	// Upstream's library panics at this.
	spec, old := volumes(volume("v", memory, quantity("1"))), volumes(corev1.Volume{Name: "v"})
	if got := features.NeededForUpdate(&spec, &old); got != nil {
		t.Errorf("a volume that was of another sort: %v", got)
	}
}
