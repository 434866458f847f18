// Package features says which features a pod needs of the kubelet that runs it, of those that kubelets declare in
// status.declaredFeatures of their nodes (KEP-5328). Schedulers use it to choose nodes, and kubelets to admit pods that
// no scheduler has placed.
//
// Everything here is a pure function of its arguments.
package features

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

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
