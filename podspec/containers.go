package podspec

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// containers yields every container of a spec: init containers, containers, then ephemeral ones with the fields that
// all share. The pointers point into the spec.
func containers(spec *corev1.PodSpec) iter.Seq[*corev1.Container] {
	return func(yield func(*corev1.Container) bool) {
		if spec == nil {
			return
		}
		for i := range spec.InitContainers {
			if !yield(&spec.InitContainers[i]) {
				return
			}
		}
		for i := range spec.Containers {
			if !yield(&spec.Containers[i]) {
				return
			}
		}
		for i := range spec.EphemeralContainers {
			if !yield((*corev1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon)) {
				return
			}
		}
	}
}

// containerPaths yields the same containers with their paths in a spec at path.
func containerPaths(spec *corev1.PodSpec, path *field.Path) iter.Seq2[*field.Path, *corev1.Container] {
	return func(yield func(*field.Path, *corev1.Container) bool) {
		i, lists := 0, []struct {
			name string
			n    int
		}{
			{"initContainers", len(spec.InitContainers)},
			{"containers", len(spec.Containers)},
			{"ephemeralContainers", len(spec.EphemeralContainers)},
		}
		for c := range containers(spec) {
			for i == lists[0].n {
				i, lists = 0, lists[1:]
			}
			if !yield(path.Child(lists[0].name).Index(i), c) {
				return
			}
			i++
		}
	}
}

// anyContainer reports whether any container of the spec has a property.
func anyContainer(spec *corev1.PodSpec, has func(*corev1.Container) bool) bool {
	for c := range containers(spec) {
		if has(c) {
			return true
		}
	}
	return false
}

// probes yields the probes of a container.
func probes(c *corev1.Container) iter.Seq[*corev1.Probe] {
	return func(yield func(*corev1.Probe) bool) {
		for _, p := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
			if p != nil && !yield(p) {
				return
			}
		}
	}
}

// hooks yields the lifecycle handlers of a container.
func hooks(c *corev1.Container) iter.Seq[*corev1.LifecycleHandler] {
	return func(yield func(*corev1.LifecycleHandler) bool) {
		if c.Lifecycle == nil {
			return
		}
		for _, h := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
			if h != nil && !yield(h) {
				return
			}
		}
	}
}
