package critical_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/podspec/critical"
)

func Example() {
	for _, class := range critical.Classes() {
		fmt.Println(class.Name, class.Value)
	}
	// Output:
	// system-node-critical 2000001000
	// system-cluster-critical 2000000000
}

func TestCriticalPods(t *testing.T) {
	for name, c := range map[string]struct {
		annotations  map[string]string
		priority     *int32
		class        string
		pod, fornode bool
	}{
		"any":                            {},
		"from the API":                   {annotations: map[string]string{"kubernetes.io/config.source": "api"}},
		"static":                         {annotations: map[string]string{"kubernetes.io/config.source": "file"}, pod: true},
		"of an empty source":             {annotations: map[string]string{"kubernetes.io/config.source": ""}, pod: true},
		"a mirror pod":                   {annotations: map[string]string{"kubernetes.io/config.mirror": ""}, pod: true},
		"of a high user priority":        {priority: new(int32(1_999_999_999))},
		"cluster critical":               {priority: new(int32(2_000_000_000)), class: "system-cluster-critical", pod: true},
		"node critical":                  {priority: new(int32(2_000_001_000)), class: "system-node-critical", pod: true, fornode: true},
		"node critical by class only":    {priority: new(int32(0)), class: "system-node-critical"},
		"static and cluster critical":    {annotations: map[string]string{"kubernetes.io/config.source": "file"}, class: "system-cluster-critical", pod: true},
		"a mirror pod and node critical": {annotations: map[string]string{"kubernetes.io/config.mirror": "x"}, class: "system-node-critical", pod: true, fornode: true},
		"node critical by priority only": {priority: new(int32(2_000_001_000)), pod: true},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Priority: c.priority, PriorityClassName: c.class}}
		pod.Annotations = c.annotations
		if got := critical.Pod(pod); got != c.pod {
			t.Errorf("%s is critical: %t", name, got)
		}
		if got := critical.ForNode(pod); got != c.fornode {
			t.Errorf("%s is critical to its node: %t", name, got)
		}
	}
}
