package endpointslice_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/controllers/endpointslice"
)

// BenchmarkPlan compares a thousand pods with slices that have them already.
func BenchmarkPlan(b *testing.B) {
	var all []*corev1.Pod
	for i := range 1000 {
		p := pod(fmt.Sprintf("p%04d", i), fmt.Sprintf("1.1.%d.%d", i/250, i%250))
		p.UID = types.UID(p.Name)
		all = append(all, p)
	}
	s := service(http())
	var existing []*discoveryv1.EndpointSlice
	for i := range 10 {
		existing = append(existing, made(fmt.Sprint("s", i), s, all[i*100:i*100+100]...))
	}
	b.ReportAllocs()
	for b.Loop() {
		if create, update, remove, _ := endpointslice.Plan(s, all, existing, 100); len(create)+len(update)+len(remove) > 0 {
			b.Fatal("nothing was to be done")
		}
	}
}
