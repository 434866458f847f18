package podspec

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// MergeLabelKeys merges the labels of a new pod that matchLabelKeys and mismatchLabelKeys name into the selectors of
// its affinity terms (KEP-3633) and spread constraints (KEP-3243). A term without a selector matches nothing and is
// left unchanged.
func MergeLabelKeys(pod *corev1.Pod) {
	for _, t := range affinityTerms(pod.Spec.Affinity) {
		mergeKeys(t.LabelSelector, t.MatchLabelKeys, metav1.LabelSelectorOpIn, pod.Labels)
		mergeKeys(t.LabelSelector, t.MismatchLabelKeys, metav1.LabelSelectorOpNotIn, pod.Labels)
	}
	for i := range pod.Spec.TopologySpreadConstraints {
		c := &pod.Spec.TopologySpreadConstraints[i]
		mergeKeys(c.LabelSelector, c.MatchLabelKeys, metav1.LabelSelectorOpIn, pod.Labels)
	}
}

func mergeKeys(selector *metav1.LabelSelector, keys []string, operator metav1.LabelSelectorOperator, labels map[string]string) {
	if selector == nil {
		return
	}
	for _, key := range keys {
		if value, ok := labels[key]; ok {
			selector.MatchExpressions = append(selector.MatchExpressions,
				metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: []string{value}})
		}
	}
}

// AppArmorFromAnnotations sets the AppArmor profile of a new pod's containers from their annotations, unless a field
// sets it (KEP-24).
func AppArmorFromAnnotations(pod *corev1.Pod) {
	if pod.Spec.OS != nil && pod.Spec.OS.Name == corev1.Windows {
		return
	}
	var ofPod *corev1.AppArmorProfile
	if pod.Spec.SecurityContext != nil {
		ofPod = pod.Spec.SecurityContext.AppArmorProfile
	}
	for c := range containers(&pod.Spec) {
		annotation, ok := pod.Annotations[appArmorPrefix+c.Name]
		if !ok || c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil {
			continue
		}
		profile := appArmorNamed(annotation)
		if profile == nil || equality.Semantic.DeepEqual(profile, ofPod) {
			continue
		}
		if c.SecurityContext == nil {
			c.SecurityContext = &corev1.SecurityContext{}
		}
		c.SecurityContext.AppArmorProfile = profile
	}
}

// appArmorNamed returns the profile that an annotation names, nil if it names none.
func appArmorNamed(annotation string) *corev1.AppArmorProfile {
	switch annotation {
	case corev1.DeprecatedAppArmorBetaProfileNameUnconfined:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	case corev1.DeprecatedAppArmorBetaProfileRuntimeDefault:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}
	}
	path, ok := strings.CutPrefix(annotation, localhostPrefix)
	if !ok {
		return nil
	}
	profile := &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: &path}
	var r report
	if r.appArmor(profile, nil); len(r.errs) > 0 {
		return nil
	}
	return profile
}

// DefaultPodResources completes pod-level resources, if there are any, from those of the containers (KEP-2837): limits
// of huge pages, then requests, then limits of resources that every container limits.
func DefaultPodResources(pod *corev1.Pod) {
	r := pod.Spec.Resources
	if r == nil || len(r.Requests)+len(r.Limits) == 0 {
		return
	}
	// Ephemeral containers have no resources.
	parts := &corev1.Pod{Spec: corev1.PodSpec{Containers: pod.Spec.Containers, InitContainers: pod.Spec.InitContainers}}
	limits := resourcehelper.AggregateContainerLimits(parts, resourcehelper.PodResourcesOptions{})
	requests := resourcehelper.AggregateContainerRequests(parts, resourcehelper.PodResourcesOptions{})
	for name, q := range limits {
		if _, requested := r.Requests[name]; isHugePage(name) && !requested {
			setIfAbsent(&r.Limits, name, q)
		}
	}
	for name, q := range requests {
		if resourcehelper.IsSupportedPodLevelResource(name) && overcommittable(name) {
			setIfAbsent(&r.Requests, name, q)
		}
	}
	for name, q := range r.Limits {
		if resourcehelper.IsSupportedPodLevelResource(name) {
			setIfAbsent(&r.Requests, name, q.DeepCopy())
		}
	}
	for name, request := range r.Requests {
		limit, limited := limits[name]
		if !resourcehelper.IsSupportedPodLevelResource(name) || !limited || !allLimit(&pod.Spec, name) {
			continue
		}
		if request.Cmp(limit) > 0 {
			limit = request
		}
		setIfAbsent(&r.Limits, name, limit)
	}
}

func setIfAbsent[Q any, M ~map[corev1.ResourceName]Q](list *M, name corev1.ResourceName, q Q) {
	if *list == nil {
		*list = M{}
	}
	if _, ok := (*list)[name]; !ok {
		(*list)[name] = q
	}
}

func allLimit(spec *corev1.PodSpec, name corev1.ResourceName) bool {
	return !anyContainer(spec, func(c *corev1.Container) bool {
		_, ok := c.Resources.Limits[name]
		return !ok
	})
}
