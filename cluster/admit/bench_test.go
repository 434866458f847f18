package admit_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/cluster/admit"
)

// BenchmarkPod is a pod through the plugins that are on by default.
func BenchmarkPod(b *testing.B) {
	w, err := admit.Start(b.Context(), nil, admit.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx:1.27"}}}}
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			r, err := w.Ask(b.Context(), admit.Request{Object: pod})
			if err != nil || r.Refusal != nil {
				b.Fatal(err, r.Refusal)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "cases/s")
}
