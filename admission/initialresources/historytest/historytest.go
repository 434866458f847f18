// Package historytest is the conformance suite of initialresources.History, for authors of histories.
package historytest

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/admission/initialresources"
)

// Sample is a measurement that the suite makes.
type Sample struct {
	Namespace string              // of the container's pod
	Image     string              // as the container names it
	Resource  corev1.ResourceName // cpu or memory
	Value     int64               // thousandths of a CPU, or bytes
	At        time.Time           // when it was measured
}

// Run checks histories. open returns one that knows the samples, which are whole hours apart.
func Run(t *testing.T, open func(t testing.TB, samples []Sample) initialresources.History) {
	now := time.Now().Truncate(time.Hour)
	var samples []Sample
	add := func(namespace, image string, resource corev1.ResourceName, from, to int64, hours int) {
		for v := from; v <= to; v++ {
			samples = append(samples, Sample{namespace, image, resource, v, now.Add(-time.Duration(hours) * time.Hour)})
			hours++
		}
	}
	add("a", "nginx:1.27", corev1.ResourceCPU, 1, 10, 1) // in the last ten hours
	add("a", "nginx:1.27", corev1.ResourceMemory, 1001, 1010, 1)
	add("b", "nginx:1.27", corev1.ResourceCPU, 11, 20, 1)
	add("b", "nginx:1.28", corev1.ResourceCPU, 21, 30, 1)
	add("a", "nginx:1.27", corev1.ResourceCPU, 31, 40, 200) // from nine days ago on
	add("a", "nginx", corev1.ResourceCPU, 41, 50, 1)
	add("a", "nginxes:1.27", corev1.ResourceCPU, 51, 60, 1)
	add("a", "example.com:5000/nginx:1.27", corev1.ResourceCPU, 61, 70, 1)
	add("a", "example.com:5000/tool/nginx@sha256:0123", corev1.ResourceCPU, 71, 80, 1)
	h := open(t, samples)
	for name, test := range map[string]struct {
		q    initialresources.Query
		want initialresources.Usage
	}{
		"in a namespace":        {initialresources.Query{Namespace: "a", Image: "nginx:1.27"}, initialresources.Usage{Value: 9, Samples: 10}},
		"another percentile":    {initialresources.Query{Namespace: "a", Image: "nginx:1.27", Percentile: 50}, initialresources.Usage{Value: 5, Samples: 10}},
		"the largest":           {initialresources.Query{Namespace: "a", Image: "nginx:1.27", Percentile: 100}, initialresources.Usage{Value: 10, Samples: 10}},
		"the smallest":          {initialresources.Query{Namespace: "a", Image: "nginx:1.27", Percentile: 1}, initialresources.Usage{Value: 1, Samples: 10}},
		"memory":                {initialresources.Query{Namespace: "a", Image: "nginx:1.27", Resource: corev1.ResourceMemory}, initialresources.Usage{Value: 1009, Samples: 10}},
		"in all namespaces":     {initialresources.Query{Image: "nginx:1.27"}, initialresources.Usage{Value: 18, Samples: 20}},
		"any tag":               {initialresources.Query{Image: "nginx:1.27", AnyTag: true}, initialresources.Usage{Value: 46, Samples: 40}},
		"any tag in one":        {initialresources.Query{Namespace: "b", Image: "nginx", AnyTag: true}, initialresources.Usage{Value: 28, Samples: 20}},
		"a longer time":         {initialresources.Query{Namespace: "a", Image: "nginx:1.27", From: now.Add(-30 * 24 * time.Hour)}, initialresources.Usage{Value: 38, Samples: 20}},
		"a time in the past":    {initialresources.Query{Namespace: "a", Image: "nginx:1.27", From: now.Add(-30 * 24 * time.Hour), To: now.Add(-8 * 24 * time.Hour)}, initialresources.Usage{Value: 39, Samples: 10}},
		"without a tag":         {initialresources.Query{Namespace: "a", Image: "nginx"}, initialresources.Usage{Value: 49, Samples: 10}},
		"of a registry":         {initialresources.Query{Image: "example.com:5000/nginx:1.27"}, initialresources.Usage{Value: 69, Samples: 10}},
		"of a registry, any":    {initialresources.Query{Image: "example.com:5000/tool/nginx:2", AnyTag: true}, initialresources.Usage{Value: 79, Samples: 10}},
		"of another image":      {initialresources.Query{Image: "busybox:1"}, initialresources.Usage{}},
		"in another namespace":  {initialresources.Query{Namespace: "c", Image: "nginx:1.27"}, initialresources.Usage{}},
		"strange names":         {initialresources.Query{Namespace: `a",image=~".*`, Image: `ng.nx:1.27`}, initialresources.Usage{}},
		"of a tag that is none": {initialresources.Query{Namespace: "a", Image: "nginx:1.2"}, initialresources.Usage{}},
	} {
		t.Run(name, func(t *testing.T) {
			if test.q.Resource == "" {
				test.q.Resource = corev1.ResourceCPU
			}
			if test.q.Percentile == 0 {
				test.q.Percentile = 90
			}
			if test.q.To.IsZero() {
				test.q.To = now
			}
			if test.q.From.IsZero() {
				test.q.From = now.Add(-7 * 24 * time.Hour)
			}
			if got, err := h.Usage(t.Context(), test.q); err != nil || got != test.want {
				t.Errorf("%+v, %v, want %+v", got, err, test.want)
			}
		})
	}
}
