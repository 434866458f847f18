package quota

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

func podInScope(r *corev1.ScopedResourceSelectorRequirement, pod *corev1.Pod) bool {
	switch r.ScopeName {
	case corev1.ResourceQuotaScopeTerminating:
		return bounded(pod)
	case corev1.ResourceQuotaScopeNotTerminating:
		return !bounded(pod)
	case corev1.ResourceQuotaScopeBestEffort:
		return bestEffort(pod)
	case corev1.ResourceQuotaScopeNotBestEffort:
		return !bestEffort(pod)
	case corev1.ResourceQuotaScopePriorityClass:
		return selects(r, pod.Spec.PriorityClassName)
	case corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return crossNamespace(pod.Spec.Affinity)
	}
	return false
}

// selects applies a requirement to a value; an empty value counts as absent.
func selects(r *corev1.ScopedResourceSelectorRequirement, value string) bool {
	switch r.Operator {
	case corev1.ScopeSelectorOpIn:
		return value != "" && slices.Contains(r.Values, value)
	case corev1.ScopeSelectorOpNotIn:
		return value == "" || !slices.Contains(r.Values, value)
	case corev1.ScopeSelectorOpExists:
		return value != ""
	case corev1.ScopeSelectorOpDoesNotExist:
		return value == ""
	}
	return false
}

// bounded reports whether a pod has an active deadline.
func bounded(pod *corev1.Pod) bool {
	return pod.Spec.ActiveDeadlineSeconds != nil && *pod.Spec.ActiveDeadlineSeconds >= 0
}

func bestEffort(pod *corev1.Pod) bool {
	if class := pod.Status.QOSClass; class != "" {
		return class == corev1.PodQOSBestEffort
	}
	if resourcehelper.IsPodLevelResourcesSet(pod) {
		return asksNothing(pod.Spec.Resources)
	}
	asks := func(c corev1.Container) bool { return !asksNothing(&c.Resources) }
	return !slices.ContainsFunc(pod.Spec.Containers, asks) && !slices.ContainsFunc(pod.Spec.InitContainers, asks)
}

func asksNothing(r *corev1.ResourceRequirements) bool {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		request, limit := r.Requests[name], r.Limits[name]
		if !request.IsZero() || !limit.IsZero() {
			return false
		}
	}
	return true
}

// crossNamespace reports whether a pod's affinity refers to pods of other namespaces.
func crossNamespace(a *corev1.Affinity) bool {
	if a == nil {
		return false
	}
	term := func(t *corev1.PodAffinityTerm) bool { return len(t.Namespaces) != 0 || t.NamespaceSelector != nil }
	some := func(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) bool {
		return slices.ContainsFunc(required, func(t corev1.PodAffinityTerm) bool { return term(&t) }) ||
			slices.ContainsFunc(preferred, func(t corev1.WeightedPodAffinityTerm) bool { return term(&t.PodAffinityTerm) })
	}
	near, far := a.PodAffinity, a.PodAntiAffinity
	return near != nil && some(near.RequiredDuringSchedulingIgnoredDuringExecution, near.PreferredDuringSchedulingIgnoredDuringExecution) ||
		far != nil && some(far.RequiredDuringSchedulingIgnoredDuringExecution, far.PreferredDuringSchedulingIgnoredDuringExecution)
}
