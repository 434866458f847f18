package limitranger

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// checkPod returns what of a pod breaks the limits.
func checkPod(pod *corev1.Pod, limits *corev1.LimitRange) []error {
	var errs []error
	for i := range limits.Spec.Limits {
		switch item := &limits.Spec.Limits[i]; item.Type {
		case corev1.LimitTypeContainer:
			for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
				for j := range containers {
					errs = append(errs, check(item, &containers[j].Resources)...)
				}
			}
		case corev1.LimitTypePod:
			errs = append(errs, check(item, wholePod(pod))...)
		}
	}
	return errs
}

// wholePod returns what the containers of a pod request together, or what the pod itself does.
func wholePod(pod *corev1.Pod) *corev1.ResourceRequirements {
	o := resourcehelper.PodResourcesOptions{ExcludeOverhead: true, SkipPodLevelResources: true}
	sum := &corev1.ResourceRequirements{Requests: resourcehelper.PodRequests(pod, o), Limits: resourcehelper.PodLimits(pod, o)}
	if own := pod.Spec.Resources; own != nil {
		override(sum.Requests, own.Requests)
		override(sum.Limits, own.Limits)
	}
	return sum
}

// override takes over the pod's own amounts of processor and memory; those of huge pages upstream does not see here.
func override(list, own corev1.ResourceList) {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if quantity, ok := own[name]; ok {
			list[name] = quantity
		}
	}
}

// checkClaim returns what of a claim breaks the limits: of a volume, only what is requested counts.
func checkClaim(claim *corev1.PersistentVolumeClaim, limits *corev1.LimitRange) []error {
	var errs []error
	requested := &corev1.ResourceRequirements{Requests: claim.Spec.Resources.Requests}
	for i := range limits.Spec.Limits {
		if item := &limits.Spec.Limits[i]; item.Type == corev1.LimitTypePersistentVolumeClaim {
			errs = append(errs, each(item.Min, func(name corev1.ResourceName, least resource.Quantity) error {
				return rule{item, name, least}.atLeast(requested)
			})...)
			errs = append(errs, each(item.Max, func(name corev1.ResourceName, most resource.Quantity) error {
				return rule{item, name, most}.requestsAtMost(requested)
			})...)
		}
	}
	return errs
}

// check returns what of the requests and limits of a container or pod breaks an item.
func check(item *corev1.LimitRangeItem, r *corev1.ResourceRequirements) []error {
	errs := each(item.Min, func(name corev1.ResourceName, least resource.Quantity) error {
		return rule{item, name, least}.atLeast(r)
	})
	errs = append(errs, each(item.Max, func(name corev1.ResourceName, most resource.Quantity) error {
		return rule{item, name, most}.atMost(r)
	})...)
	return append(errs, each(item.MaxLimitRequestRatio, func(name corev1.ResourceName, ratio resource.Quantity) error {
		return rule{item, name, ratio}.withinRatio(r)
	})...)
}

// each returns the errors of check for all resources of a list.
func each(list corev1.ResourceList, check func(corev1.ResourceName, resource.Quantity) error) []error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if err := check(name, list[name]); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}
