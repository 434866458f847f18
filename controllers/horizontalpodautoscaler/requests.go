package horizontalpodautoscaler

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// requestsOf returns what pods request of a resource, by name and in thousandths: for a container, or else for the pod or
// for all of its containers.
func requestsOf(list []*corev1.Pod, r Resource) (map[string]int64, error) {
	out := make(map[string]int64, len(list))
	for _, pod := range list {
		request, err := requestOf(pod, r)
		if err != nil {
			return nil, err
		}
		out[pod.Name] = request
	}
	return out, nil
}

func requestOf(pod *corev1.Pod, r Resource) (int64, error) {
	if r.Container == "" && resourcehelper.IsPodLevelRequestsSet(pod) {
		request, ok := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})[r.Name]
		if !ok {
			return 0, fmt.Errorf("missing pod-level request for %s in Pod %s", r.Name, pod.Name)
		}
		return request.MilliValue(), nil
	}
	containers := slices.Clone(pod.Spec.Containers)
	for _, c := range pod.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			containers = append(containers, c)
		}
	}
	var sum int64
	for _, c := range containers {
		if r.Container != "" && r.Container != c.Name {
			continue
		}
		request, ok := c.Resources.Requests[r.Name]
		if !ok {
			return 0, fmt.Errorf("missing request for %s in container %s of Pod %s", r.Name, c.Name, pod.Name)
		}
		if sum += request.MilliValue(); r.Container != "" {
			return sum, nil
		}
	}
	if r.Container != "" {
		return 0, fmt.Errorf("container %s not found in Pod %s", r.Container, pod.Name)
	}
	return sum, nil
}
