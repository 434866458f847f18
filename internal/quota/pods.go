package quota

import (
	"errors"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	resourcehelper "k8s.io/component-helpers/resource"
)

func podEvaluator() Evaluator {
	return Evaluator{
		tracks: podTracks,
		usage: func(obj runtime.Object, now time.Time) corev1.ResourceList {
			pod, ok := obj.(*corev1.Pod)
			if !ok {
				return nil
			}
			return podUsage(pod, now)
		},
		scope: func(r *corev1.ScopedResourceSelectorRequirement, obj runtime.Object) bool {
			pod, ok := obj.(*corev1.Pod)
			return ok && podInScope(r, pod)
		},
		constrain: func(required []corev1.ResourceName, obj runtime.Object) error {
			pod, ok := obj.(*corev1.Pod)
			if !ok {
				return nil
			}
			return podConstraints(required, pod)
		},
		rises: func(obj, old runtime.Object) bool {
			pod, ok := obj.(*corev1.Pod)
			before, okBefore := old.(*corev1.Pod)
			return ok && okBefore && bounded(pod) != bounded(before)
		},
	}
}

func podTracks(name corev1.ResourceName) bool {
	switch name {
	case "count/pods", corev1.ResourcePods,
		corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage,
		corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceRequestsEphemeralStorage,
		corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory, corev1.ResourceLimitsEphemeralStorage:
		return true
	}
	s := string(name)
	if strings.HasPrefix(s, corev1.ResourceHugePagesPrefix) || strings.HasPrefix(s, corev1.ResourceRequestsHugePagesPrefix) {
		return true
	}
	// Extended resources cannot be overcommitted, so only their requests are limited.
	return strings.HasPrefix(s, corev1.DefaultResourceRequestsPrefix) &&
		(!native(name) || strings.HasPrefix(s, corev1.DefaultResourceRequestsPrefix+resourcev1.ResourceDeviceClassPrefix))
}

// native reports whether a resource is Kubernetes' own: without a domain, or in *kubernetes.io.
func native(name corev1.ResourceName) bool {
	return !strings.Contains(string(name), "/") || strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}

// extended reports whether a resource is an extended one, such as example.com/gpu, or stands for a class of devices.
func extended(name corev1.ResourceName) bool {
	if strings.HasPrefix(string(name), resourcev1.ResourceDeviceClassPrefix) {
		return true
	}
	return !native(name) && !strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix) &&
		len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+string(name))) == 0
}

func podUsage(pod *corev1.Pod, now time.Time) corev1.ResourceList {
	usage := corev1.ResourceList{"count/pods": count(1)}
	if Ended(pod, now) {
		return usage
	}
	pod = unshared(pod)
	o := resourcehelper.PodResourcesOptions{UseStatusResources: true}
	for name, quantity := range compute(resourcehelper.PodRequests(pod, o), resourcehelper.PodLimits(pod, o)) {
		usage[name] = quantity
	}
	return usage
}

// Ended reports whether a pod uses nothing but storage in the API: it has run to completion, or should be gone by now,
// so that pods on a lost node do not occupy quota.
func Ended(pod *corev1.Pod, now time.Time) bool {
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return true
	}
	if pod.DeletionTimestamp == nil || pod.DeletionGracePeriodSeconds == nil {
		return false
	}
	grace := time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
	return now.After(pod.DeletionTimestamp.Add(grace))
}

// compute returns the usage of requests and limits, under the names in quotas.
func compute(requests, limits corev1.ResourceList) corev1.ResourceList {
	usage := corev1.ResourceList{corev1.ResourcePods: count(1)}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		if request, ok := requests[name]; ok {
			usage[name], usage[corev1.DefaultResourceRequestsPrefix+name] = request, request
		}
		if limit, ok := limits[name]; ok {
			usage["limits."+name] = limit
		}
	}
	for name, request := range requests {
		if strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
			usage[name], usage[corev1.DefaultResourceRequestsPrefix+name] = request, request
		}
		if extended(name) {
			usage[corev1.DefaultResourceRequestsPrefix+name] = request
		}
	}
	return usage
}

// podConstraints requires every container to set the CPU and memory values that are limited. Only these two are
// required.
func podConstraints(required []corev1.ResourceName, pod *corev1.Pod) error {
	if resourcehelper.IsPodLevelResourcesSet(pod) {
		return nil
	}
	missing := map[corev1.ResourceName][]string{}
	note := func(c *corev1.Container) {
		has := compute(c.Resources.Requests, c.Resources.Limits)
		for _, name := range required {
			if _, ok := has[name]; !ok && mustBeSaid(name) && !slices.Contains(missing[name], c.Name) {
				missing[name] = append(missing[name], c.Name)
			}
		}
	}
	for i := range pod.Spec.Containers {
		note(&pod.Spec.Containers[i])
	}
	for i := range pod.Spec.InitContainers {
		note(&pod.Spec.InitContainers[i])
	}
	var parts []string
	for _, name := range required {
		if containers := missing[name]; len(containers) > 0 {
			slices.Sort(containers)
			parts = append(parts, string(name)+" for: "+strings.Join(containers, ","))
		}
	}
	if len(parts) == 0 {
		return nil
	}
	return errors.New("must specify " + strings.Join(parts, "; "))
}

func mustBeSaid(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory,
		corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory:
		return true
	}
	return false
}
