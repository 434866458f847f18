package downward_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/kubelet/environment/downward"
)

func ExampleField() {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"tier": "front", "app": "web"}}}
	for _, path := range []string{"metadata.name", "metadata.labels['tier']", "metadata.labels"} {
		value, err := downward.Field(pod, path)
		fmt.Println(value, err)
	}
	// Output:
	// web <nil>
	// front <nil>
	// app="web"
	// tier="front" <nil>
}

func TestField(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "name", UID: "uid",
		Labels:      map[string]string{"key": "value", "B.c/Key": "v\"q\n"},
		Annotations: map[string]string{"www.k8s.com/test": "1", "Www.k8s.com/test": "2"},
	}}
	for path, want := range map[string]string{
		"metadata.namespace": "ns", "metadata.name": "name", "metadata.uid": "uid",
		"metadata.labels": "B.c/Key=\"v\\\"q\\n\"\nkey=\"value\"", "metadata.labels['key']": "value", "metadata.labels['B.c/Key']": "", "metadata.labels['no']": "",
		"metadata.annotations": "Www.k8s.com/test=\"2\"\nwww.k8s.com/test=\"1\"", "metadata.annotations['www.k8s.com/test']": "1", "metadata.annotations['Www.k8s.com/test']": "2",
	} {
		got, err := downward.Field(pod, path)
		if path == "metadata.labels['B.c/Key']" {
			if err == nil || !strings.HasPrefix(err.Error(), "invalid key subscript in metadata.labels['B.c/Key']: ") {
				t.Errorf("%s: %v", path, err)
			}
			continue
		}
		if err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", path, got, err, want)
		}
	}
	for path, want := range map[string]string{
		"metadata.whoops": "unsupported fieldPath: metadata.whoops", "": "unsupported fieldPath: ", "['x']": "unsupported fieldPath: ['x']",
		"metadata.name['x']": `fieldPath "metadata.name['x']" does not support subscript`, "metadata.labels[x]": "unsupported fieldPath: metadata.labels[x]",
		"metadata.labels['key": "unsupported fieldPath: metadata.labels['key",
		"metadata.labels']":    "unsupported fieldPath: metadata.labels']",
	} {
		if _, err := downward.Field(pod, path); err == nil || err.Error() != want {
			t.Errorf("%q: %v", path, err)
		}
	}
	if _, err := downward.Field(pod, "metadata.annotations['no key']"); err == nil || !strings.HasPrefix(err.Error(), "invalid key subscript in metadata.annotations['no key']: ") {
		t.Errorf("an annotation that is none: %v", err)
	}
	if got := downward.FormatMap(nil); got != "" {
		t.Errorf("of nothing: %q", got)
	}
}

func list(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

// TestResource has upstream's table of containers' resources.
func TestResource(t *testing.T) {
	c := &corev1.Container{Resources: corev1.ResourceRequirements{
		Requests: list("cpu", "100m", "memory", "500Mi", "ephemeral-storage", "1Gi", "hugepages-2Mi", "100Mi"),
		Limits:   list("cpu", "500m", "memory", "1Gi", "hugepages-2Mi", "100Mi"),
	}}
	bounds := list("cpu", "8", "memory", "16Gi", "ephemeral-storage", "5Gi", "hugepages-1Gi", "1Gi")
	for _, q := range []struct{ resource, divisor, want string }{
		{"requests.cpu", "", "1"}, {"requests.cpu", "1m", "100"}, {"requests.cpu", "100m", "1"}, {"requests.cpu", "1", "1"},
		{"requests.memory", "100Mi", "5"}, {"requests.memory", "", "524288000"}, {"requests.ephemeral-storage", "", "1073741824"},
		{"limits.cpu", "1m", "500"}, {"limits.cpu", "0", "1"}, {"limits.memory", "512Mi", "2"}, {"limits.memory", "3Mi", "342"},
		{"limits.ephemeral-storage", "1Gi", "5"}, {"requests.hugepages-2Mi", "", "104857600"}, {"limits.hugepages-2Mi", "1Mi", "100"}, {"limits.hugepages-1Gi", "", "0"},
	} {
		s := &corev1.ResourceFieldSelector{Resource: q.resource}
		if q.divisor != "" {
			s.Divisor = resource.MustParse(q.divisor)
		}
		if got, err := downward.Resource(s, c, bounds); err != nil || got != q.want {
			t.Errorf("%s / %s: %s, %v, want %s", q.resource, q.divisor, got, err, q.want)
		}
	}
	for resource, want := range map[string]string{"limits.cpu": "8", "limits.memory": "17179869184", "requests.cpu": "0"} {
		if got, err := downward.Resource(&corev1.ResourceFieldSelector{Resource: resource}, &corev1.Container{}, bounds); err != nil || got != want {
			t.Errorf("without any: %s: %s, %v, want %s", resource, got, err, want)
		}
	}
	for _, bad := range []string{"limits.gpu", "cpu", "", "spec.cpu", "requests.", "limits"} {
		if _, err := downward.Resource(&corev1.ResourceFieldSelector{Resource: bad}, c, bounds); err == nil || err.Error() != "unsupported container resource : "+bad {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestLimitsAndContainers(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "a"}}, InitContainers: []corev1.Container{{Name: "b"}},
	}}
	allocatable := list("cpu", "8", "memory", "16Gi")
	if got := downward.Limits(pod, allocatable); got.Cpu().Value() != 8 {
		t.Errorf("%v", got)
	}
	pod.Spec.Resources = &corev1.ResourceRequirements{Limits: list("cpu", "2", "hugepages-2Mi", "2Mi")}
	got := downward.Limits(pod, allocatable)
	if got.Cpu().Value() != 2 || got.Memory().Value() != 16<<30 || len(got) != 2 || allocatable.Cpu().Value() != 8 {
		t.Errorf("%v, and the node's %v", got, allocatable)
	}
	pod.Spec.Resources = &corev1.ResourceRequirements{Limits: list("cpu", "0"), Requests: list("memory", "1")}
	if got := downward.Limits(pod, allocatable); got.Cpu().Value() != 8 || got.Memory().Value() != 16<<30 || len(got) != 2 {
		t.Errorf("without limits of the pod: %v", got)
	}
	for _, name := range []string{"a", "b"} {
		if c, err := downward.Container(pod, name); err != nil || c.Name != name {
			t.Errorf("%v, %v", c, err)
		}
	}
	if _, err := downward.Container(pod, "c"); err == nil || err.Error() != "container c not found" {
		t.Errorf("%v", err)
	}
}
