// Package features says which features a pod needs of the kubelet that runs it, of those that kubelets declare in
// status.declaredFeatures of their nodes (KEP-5328). Schedulers use it to choose nodes, and kubelets to admit pods that
// no scheduler has placed.
//
// Everything here is a pure function of its arguments.
package features

import (
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/keelson-dev/keelson/podspec/restart"
)

// The features of Kubernetes 1.37 that a pod may need.
const (
	RestartAllContainers   = "RestartAllContainersOnContainerExits"
	UserNamespacesHostNet  = "UserNamespacesHostNetworkSupport"
	VolumeBindMountOptions = "VolumeBindMountOptions"
)

// Needed returns the features that a kubelet must have to run the pod, in upstream's order.
func Needed(spec *corev1.PodSpec) []string {
	var needed []string
	if restart.Together(spec) {
		needed = append(needed, RestartAllContainers)
	}
	if spec.HostNetwork && spec.HostUsers != nil && !*spec.HostUsers {
		needed = append(needed, UserNamespacesHostNet)
	}
	if mountOptions(spec) {
		needed = append(needed, VolumeBindMountOptions)
	}
	return needed
}

func mountOptions(spec *corev1.PodSpec) bool {
	options := func(mounts []corev1.VolumeMount) bool {
		return slices.ContainsFunc(mounts, func(m corev1.VolumeMount) bool { return len(m.BindMountOptions) > 0 })
	}
	container := func(c corev1.Container) bool { return options(c.VolumeMounts) }
	return slices.ContainsFunc(spec.InitContainers, container) || slices.ContainsFunc(spec.Containers, container) ||
		slices.ContainsFunc(spec.EphemeralContainers, func(c corev1.EphemeralContainer) bool { return options(c.VolumeMounts) })
}

// The features of Kubernetes 1.37 that an update of a running pod may need.
const (
	ResizePods                = "InPlacePodLevelResourcesVerticalScaling"
	ResizeInitContainers      = "InPlacePodVerticalScalingInitContainers"
	ResizeMemoryBackedVolumes = "InPlacePodVerticalScalingMemoryBackedVolumes"
)

// NeededForUpdate returns the features that a kubelet must have to run a pod on with another spec, in upstream's order.
func NeededForUpdate(spec, old *corev1.PodSpec) []string {
	var needed []string
	if !equality.Semantic.DeepEqual(spec.Resources, old.Resources) {
		needed = append(needed, ResizePods)
	}
	for i := range min(len(spec.InitContainers), len(old.InitContainers)) {
		// As upstream's, this compares how quantities are written, too.
		if was := &old.InitContainers[i]; !restart.Sidecar(was) && !reflect.DeepEqual(was.Resources, spec.InitContainers[i].Resources) {
			needed = append(needed, ResizeInitContainers)
			break
		}
	}
	if resizedInMemory(spec.Volumes, old.Volumes) {
		needed = append(needed, ResizeMemoryBackedVolumes)
	}
	return needed
}

// resizedInMemory reports whether a volume in memory has another size than before.
func resizedInMemory(volumes, old []corev1.Volume) bool {
	if len(volumes) != len(old) {
		return false
	}
	for i := range volumes {
		v, was := volumes[i].EmptyDir, old[i].EmptyDir
		if volumes[i].Name == old[i].Name && v != nil && was != nil && v.Medium == corev1.StorageMediumMemory &&
			v.SizeLimit != nil && was.SizeLimit != nil && v.SizeLimit.Cmp(*was.SizeLimit) != 0 {
			return true
		}
	}
	return false
}
