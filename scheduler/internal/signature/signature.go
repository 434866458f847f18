// Package signature writes the fields of a pod that scheduling looks at as bytes that differ
// when the fields do.
package signature

import (
	"encoding/json"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// String appends a string with its length, so that two in a row cannot be taken for others.
func String(b []byte, s string) []byte {
	b = strconv.AppendInt(b, int64(len(s)), 10)
	b = append(b, ':')
	return append(b, s...)
}

// Requests appends what the pod requests. It returns false for a pod whose status has a say
// in that, because it has run or was resized.
func Requests(b []byte, pod *corev1.Pod) ([]byte, bool) {
	st := &pod.Status
	if len(st.ContainerStatuses) > 0 || len(st.InitContainerStatuses) > 0 || st.Resources != nil || st.AllocatedResources != nil {
		return b, false
	}
	for _, c := range st.Conditions {
		if c.Type == corev1.PodResizePending {
			return b, false
		}
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		b = append(b, 'i')
		if c.RestartPolicy != nil {
			b = String(b, string(*c.RestartPolicy))
		}
		b = list(b, c.Resources.Requests)
	}
	for i := range pod.Spec.Containers {
		b = list(append(b, 'c'), pod.Spec.Containers[i].Resources.Requests)
	}
	if pod.Spec.Resources != nil {
		b = list(append(b, 'p'), pod.Spec.Resources.Requests)
	}
	return list(append(b, 'o'), pod.Spec.Overhead), true
}

func list(b []byte, l corev1.ResourceList) []byte {
	var few [8]corev1.ResourceName
	names := few[:0]
	for name := range l {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		b = String(b, string(name))
		q := l[name]
		// The two values that scheduling reads quantities by.
		b = strconv.AppendInt(append(b, '='), q.MilliValue(), 10)
		b = strconv.AppendInt(append(b, ','), q.Value(), 10)
	}
	return b
}

// Tolerations appends the pod's tolerations.
func Tolerations(b []byte, pod *corev1.Pod) []byte {
	for i := range pod.Spec.Tolerations {
		t := &pod.Spec.Tolerations[i]
		b = String(b, t.Key)
		b = String(b, string(t.Operator))
		b = String(b, t.Value)
		b = String(b, string(t.Effect))
	}
	return b
}

// NodeAffinity appends the pod's node selector and node affinity. It returns false for one
// that cannot be written down.
func NodeAffinity(b []byte, pod *corev1.Pod) ([]byte, bool) {
	names := make([]string, 0, len(pod.Spec.NodeSelector))
	for name := range pod.Spec.NodeSelector {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		b = String(String(append(b, 's'), name), pod.Spec.NodeSelector[name])
	}
	if pod.Spec.NodeSelector != nil {
		b = append(b, 'S') // an empty one is not the same as none
	}
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
		return b, true
	}
	data, err := json.Marshal(pod.Spec.Affinity.NodeAffinity)
	if err != nil {
		return b, false
	}
	return append(append(b, 'a'), data...), true
}
