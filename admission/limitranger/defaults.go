package limitranger

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// annotation tells which requests and limits a pod has from a LimitRange. The last one that set any tells.
const annotation = "kubernetes.io/limit-ranger"

// setDefaults gives the containers of a pod the requests and limits that they lack.
func setDefaults(pod *corev1.Pod, limits *corev1.LimitRange) {
	requested, limit := corev1.ResourceList{}, corev1.ResourceList{}
	for i := range limits.Spec.Limits {
		if item := &limits.Spec.Limits[i]; item.Type == corev1.LimitTypeContainer {
			set(requested, item.DefaultRequest, true)
			set(limit, item.Default, true)
		}
	}
	var notes []string
	for _, group := range []struct {
		name       string
		containers []corev1.Container
	}{{"container", pod.Spec.Containers}, {"init container", pod.Spec.InitContainers}} {
		for i := range group.containers {
			c := &group.containers[i]
			for _, kind := range []struct {
				name string
				list *corev1.ResourceList
				from corev1.ResourceList
			}{{"request", &c.Resources.Requests, requested}, {"limit", &c.Resources.Limits, limit}} {
				if *kind.list == nil {
					*kind.list = corev1.ResourceList{}
				}
				if names := set(*kind.list, kind.from, false); len(names) > 0 {
					notes = append(notes, strings.Join(names, ", ")+" "+kind.name+" for "+group.name+" "+c.Name)
				}
			}
		}
	}
	if len(notes) == 0 {
		return
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[annotation] = "LimitRanger plugin set: " + strings.Join(notes, "; ")
}

// set copies resources into a list, those that it has only if replace is set. It returns the names of the copied ones.
func set(list, from corev1.ResourceList, replace bool) []string {
	var names []string
	for name, quantity := range from {
		if _, has := list[name]; !has || replace {
			list[name] = quantity.DeepCopy()
			names = append(names, string(name))
		}
	}
	slices.Sort(names)
	return names
}
