// Package signature encodes fields of a pod as bytes that differ if the fields do. The plugins of upstream's
// default profile use it to declare what their results depend on (scheduler.Local), and others may, too: a
// predicate that reads the pod's requests and a label returns
//
//	signature.Requests(signature.String(b, pod.Labels["team"]), pod)
//
// Each function appends to b and returns the result, like append. Encodings may follow each other without a
// separator: no two different sequences of fields give the same bytes. No function changes or keeps the pod,
// and the bytes depend on nothing else, neither on time nor on the order of maps; they are meaningful within
// one process only. The functions may be called from any goroutine.
package signature

import (
	"encoding/json"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// String appends a string with its length, so that sequences of strings are unambiguous.
func String(b []byte, s string) []byte {
	b = strconv.AppendInt(b, int64(len(s)), 10)
	b = append(b, ':')
	return append(b, s...)
}

// Requests appends the pod's requests, all that scheduler.Requests and scheduler.NewPodInfo depend on. It
// returns false for a pod whose status affects these, because it has run or was resized.
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
	return append(list(append(b, 'o'), pod.Spec.Overhead), '.'), true
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
		// The two values of quantities that scheduling reads.
		b = strconv.AppendInt(append(b, '='), q.MilliValue(), 10)
		b = append(strconv.AppendInt(append(b, ','), q.Value(), 10), ';')
	}
	return b
}

// Tolerations appends the pod's tolerations, in their order.
func Tolerations(b []byte, pod *corev1.Pod) []byte {
	for i := range pod.Spec.Tolerations {
		t := &pod.Spec.Tolerations[i]
		b = String(b, t.Key)
		b = String(b, string(t.Operator))
		b = String(b, t.Value)
		b = String(b, string(t.Effect))
	}
	return append(b, '.')
}

// NodeAffinity appends the pod's node selector and node affinity.
func NodeAffinity(b []byte, pod *corev1.Pod) []byte {
	names := make([]string, 0, len(pod.Spec.NodeSelector))
	for name := range pod.Spec.NodeSelector {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		b = String(String(append(b, 's'), name), pod.Spec.NodeSelector[name])
	}
	if pod.Spec.NodeSelector != nil {
		b = append(b, 'S') // an empty one differs from nil
	}
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
		return append(b, '.')
	}
	data, _ := json.Marshal(pod.Spec.Affinity.NodeAffinity) //nolint:errchkjson // strings and numbers always encode
	return append(append(append(b, 'a'), data...), '.')
}
