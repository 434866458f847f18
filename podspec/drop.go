package podspec

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Drop removes from a spec the fields whose features are off by default, unless the old spec, nil for a new object,
// already uses the feature. From annotations, those of the pod or template, it removes the obsolete ones for init
// containers. The features are AtomicWriteVolumeUserFields, ContainerStopSignals, EmptyDirVolumeMode,
// EvictionRequestAPI, GenericWorkload, GRPCContainerProbeTLS, H2CContainerProbe and VolumeBindMountOptions.
func Drop(spec *corev1.PodSpec, annotations map[string]string, old *corev1.PodSpec) {
	if !hasVolumeUsers(old) {
		for user := range volumeUsers(spec) {
			*user = nil
		}
	}
	if old == nil || old.SchedulingGroup == nil {
		spec.SchedulingGroup = nil
	}
	if old == nil || len(old.EvictionResponders) == 0 {
		spec.EvictionResponders = nil
	}
	dropProbeModes(spec, old)
	if old == nil || !slices.ContainsFunc(old.Volumes, hasEmptyDirMode) {
		for i := range spec.Volumes {
			if e := spec.Volumes[i].EmptyDir; e != nil {
				e.Mode = nil
			}
		}
	}
	if !anyContainer(old, hasMountOptions) {
		for c := range containers(spec) {
			for i := range c.VolumeMounts {
				c.VolumeMounts[i].BindMountOptions = nil
			}
		}
	}
	if !anyContainer(old, hasStopSignal) {
		for c := range containers(spec) {
			dropStopSignal(c)
		}
	}
	if !anyContainer(old, hasHTTPProtocol) {
		for c := range containers(spec) {
			for h := range httpGets(c) {
				h.Protocol = nil
			}
		}
	}
	for _, key := range []string{
		"pod.beta.kubernetes.io/init-containers", "pod.alpha.kubernetes.io/init-containers",
		"pod.beta.kubernetes.io/init-container-statuses", "pod.alpha.kubernetes.io/init-container-statuses",
	} {
		delete(annotations, key)
	}
}

// DropTemplate is Drop for a template; old is nil for a new one.
func DropTemplate(t, old *corev1.PodTemplateSpec) {
	var before *corev1.PodSpec
	if old != nil {
		before = &old.Spec
	}
	Drop(&t.Spec, t.Annotations, before)
}

// DropPod is Drop for a pod, including its status; old is nil for a new pod.
func DropPod(pod, old *corev1.Pod) {
	if old == nil {
		old = &corev1.Pod{}
	}
	Drop(&pod.Spec, pod.Annotations, &old.Spec)
	if !hasVolumeStatus(&old.Status) {
		for s := range statuses(&pod.Status) {
			for i := range s.VolumeMounts {
				s.VolumeMounts[i].VolumeStatus = nil
			}
		}
	}
	if len(old.Status.NodeAllocatableResourceClaimStatuses) == 0 {
		pod.Status.NodeAllocatableResourceClaimStatuses = nil
	}
	if len(old.Status.VolumeHealth) == 0 {
		pod.Status.VolumeHealth = nil
	}
}

func dropProbeModes(spec, old *corev1.PodSpec) {
	has := func(c *corev1.Container) bool {
		for p := range probes(c) {
			if p.GRPC != nil && p.GRPC.Mode != nil {
				return true
			}
		}
		return false
	}
	if anyContainer(old, has) {
		return
	}
	for c := range containers(spec) {
		for p := range probes(c) {
			if p.GRPC != nil {
				p.GRPC.Mode = nil
			}
		}
	}
}

func dropStopSignal(c *corev1.Container) {
	if c.Lifecycle == nil || c.Lifecycle.StopSignal == nil {
		return
	}
	c.Lifecycle.StopSignal = nil
	if *c.Lifecycle == (corev1.Lifecycle{}) {
		c.Lifecycle = nil
	}
}

func hasEmptyDirMode(v corev1.Volume) bool { return v.EmptyDir != nil && v.EmptyDir.Mode != nil }

func hasMountOptions(c *corev1.Container) bool {
	return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return len(m.BindMountOptions) > 0 })
}

func hasStopSignal(c *corev1.Container) bool {
	return c.Lifecycle != nil && c.Lifecycle.StopSignal != nil
}

func hasHTTPProtocol(c *corev1.Container) bool {
	for h := range httpGets(c) {
		if h.Protocol != nil {
			return true
		}
	}
	return false
}

func hasVolumeUsers(spec *corev1.PodSpec) bool {
	if spec == nil {
		return false
	}
	for user := range volumeUsers(spec) {
		if *user != nil {
			return true
		}
	}
	return false
}

func hasVolumeStatus(s *corev1.PodStatus) bool {
	for status := range statuses(s) {
		for _, m := range status.VolumeMounts {
			if m.VolumeStatus != nil {
				return true
			}
		}
	}
	return false
}
