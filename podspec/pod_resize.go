package podspec

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/podspec/qos"

	"github.com/keelson-dev/keelson/podspec/restart"
)

const onlyCPUAndMemory = "only cpu and memory resources are mutable"

// ValidateResize validates an update of the resources of a pod's containers (KEP-1287) and of its pod-level resources
// (KEP-5419): amounts of cpu and memory may change if the quality-of-service class does not, and none may be removed.
func ValidateResize(pod, old *corev1.Pod) field.ErrorList {
	root, path := field.NewPath(""), field.NewPath("spec")
	if isMirror(old.Annotations) {
		return field.ErrorList{field.Forbidden(root, "static pods cannot be resized")}
	}
	if old.Spec.OS != nil && old.Spec.OS.Name == corev1.Windows {
		return field.ErrorList{field.Forbidden(root, "windows pods cannot be resized")}
	}
	v := newValidator(&pod.Spec, &pod.ObjectMeta, podUpdate(old))
	v.wholePod(pod)
	if qos.Class(old) != qos.Compute(pod) {
		v.invalid(path, pod.Status.QOSClass, "Pod QOS Class may not change as a result of resizing")
	}
	if !nodeResizes(old) {
		v.forbidden(path, "Pod running on node without support for resize")
	}
	rest := pod.Spec.DeepCopy()
	if hasResources(&pod.Spec) || hasResources(&old.Spec) {
		v.resizeWhole(rest, &old.Spec, path)
	}
	if !v.sameContainers(&old.Spec, path) {
		return v.errs
	}
	v.resizeContainers(rest, &old.Spec, path)
	if !equality.Semantic.DeepEqual(pod.Spec.Volumes, old.Spec.Volumes) {
		v.forbidden(path.Child("volumes"), "volumes are immutable on resize when InPlacePodVerticalScalingMemoryBackedVolumes feature gate is disabled")
	}
	if len(v.errs) == 0 && !equality.Semantic.DeepEqual(rest, &old.Spec) {
		v.forbidden(path, onlyCPUAndMemory)
	}
	return v.errs
}

// nodeResizes reports whether the status written by the pod's node shows that the node supports resizing.
func nodeResizes(pod *corev1.Pod) bool {
	for i := range pod.Status.ContainerStatuses {
		if s := &pod.Status.ContainerStatuses[i]; s.State.Running != nil {
			return s.Resources != nil
		}
	}
	return true
}

func hasResources(spec *corev1.PodSpec) bool {
	return spec.Resources != nil && len(spec.Resources.Requests)+len(spec.Resources.Limits) > 0
}

// sameContainers rejects additions, removals and reorderings of containers.
func (v *validator) sameContainers(old *corev1.PodSpec, p *field.Path) bool {
	before := len(v.errs)
	v.sameNames(v.spec.Containers, old.Containers, p, "containers")
	v.sameNames(v.spec.InitContainers, old.InitContainers, p, "initContainers")
	return len(v.errs) == before
}

func (v *validator) sameNames(cs, old []corev1.Container, p *field.Path, list string) {
	if len(cs) != len(old) {
		v.forbidden(p.Child(list), list+" may not be added or removed on resize")
		return
	}
	for i := range cs {
		if cs[i].Name != old[i].Name {
			v.forbidden(p.Child(list).Index(i).Child("name"), list+" may not be renamed or reordered on resize")
		}
	}
}

// resizeWhole validates pod-level resources, and reverts in rest what may change.
func (v *validator) resizeWhole(rest, old *corev1.PodSpec, p *field.Path) {
	now := v.spec.Resources
	at := p.Child("resources")
	if old.Resources != nil {
		if now == nil {
			v.forbidden(at, "pod-level resources cannot be removed")
			return
		}
		if lacks(now.Requests, old.Resources.Requests) {
			v.forbidden(at.Child("requests"), "pod-level resource requests cannot be removed")
		}
		if lacks(now.Limits, old.Resources.Limits) {
			v.forbidden(at.Child("limits"), "pod-level resource limits cannot be removed")
		}
	}
	if rest.Resources != nil {
		before := old.Resources
		if before == nil {
			before = &corev1.ResourceRequirements{}
		}
		undoResize(rest.Resources, before)
		if r := rest.Resources; old.Resources == nil && len(r.Requests)+len(r.Limits)+len(r.Claims) == 0 {
			rest.Resources = nil
		}
	}
	if !equality.Semantic.DeepEqual(rest.Resources, old.Resources) {
		v.forbidden(p, "only cpu and memory resources are mutable at pod-level")
	}
}

// resizeContainers validates the resources of every container, and reverts in rest what may change.
func (v *validator) resizeContainers(rest, old *corev1.PodSpec, p *field.Path) {
	for i := range old.InitContainers {
		v.keepsResources(&v.spec.InitContainers[i], &old.InitContainers[i], p.Child("initContainers").Index(i).Child("resources"))
	}
	for i := range old.Containers {
		v.keepsResources(&v.spec.Containers[i], &old.Containers[i], p.Child("containers").Index(i).Child("resources"))
	}
	for i := range rest.Containers {
		undoResize(&rest.Containers[i].Resources, &old.Containers[i].Resources)
		if !equality.Semantic.DeepEqual(&rest.Containers[i], &old.Containers[i]) {
			v.forbidden(p, onlyCPUAndMemory)
		}
	}
	for i := range rest.InitContainers {
		c, before, at := &rest.InitContainers[i], &old.InitContainers[i], p.Child("initContainers").Index(i)
		changed := !equality.Semantic.DeepEqual(c, before)
		undoResize(&c.Resources, &before.Resources)
		if !equality.Semantic.DeepEqual(c, before) {
			v.forbidden(at, "only cpu and memory resources for init or sidecar containers are mutable")
		}
		if !changed || restart.Sidecar(c) {
			continue
		}
		for _, policy := range c.ResizePolicy {
			if policy.RestartPolicy == corev1.RestartContainer {
				v.forbidden(at, "non-sidecar init containers with a resize policy of RestartContainer cannot be resized")
			}
		}
	}
}

func (v *validator) keepsResources(c, old *corev1.Container, p *field.Path) {
	if lacks(c.Resources.Requests, old.Resources.Requests) {
		v.forbidden(p.Child("requests"), "resource requests cannot be removed")
	}
	if lacks(c.Resources.Limits, old.Resources.Limits) {
		v.forbidden(p.Child("limits"), "resource limits cannot be removed")
	}
}

// lacks reports whether a resource of old is missing.
func lacks(now, old corev1.ResourceList) bool {
	for name := range old {
		if _, ok := now[name]; !ok {
			return true
		}
	}
	return false
}

// undoResize resets cpu and memory to their old values.
func undoResize(r, old *corev1.ResourceRequirements) {
	r.Requests = undoAmounts(r.Requests, old.Requests)
	r.Limits = undoAmounts(r.Limits, old.Limits)
}

func undoAmounts(now, old corev1.ResourceList) corev1.ResourceList {
	undone := now.DeepCopy()
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		delete(undone, name)
		if q, ok := old[name]; ok {
			if undone == nil {
				undone = corev1.ResourceList{}
			}
			undone[name] = q
		}
	}
	return undone
}
