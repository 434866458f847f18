package scheduler_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/scheduler"
)

// BenchmarkTopology places 1,000 pods on 5,000 nodes in 10 zones that have 1,000 pods of the same kind already, for each
// of the kinds of upstream's scheduler_perf that look at other pods.
func BenchmarkTopology(b *testing.B) {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"color": "blue"}}
	term := func(key string) corev1.PodAffinityTerm {
		return corev1.PodAffinityTerm{TopologyKey: key, LabelSelector: selector}
	}
	spread := func(when corev1.UnsatisfiableConstraintAction) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) {
			s.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
				MaxSkew: 5, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: when, LabelSelector: selector,
			}}
		}
	}
	for name, change := range map[string]func(*corev1.PodSpec){
		"basic":            func(*corev1.PodSpec) {},
		"spread":           spread(corev1.DoNotSchedule),
		"preferred-spread": spread(corev1.ScheduleAnyway),
		"affinity": func(s *corev1.PodSpec) {
			s.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term(corev1.LabelTopologyZone)},
			}}
		},
		"anti-affinity": func(s *corev1.PodSpec) {
			s.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term(corev1.LabelHostname)},
			}}
		},
		"preferred-affinity": func(s *corev1.PodSpec) {
			s.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: term(corev1.LabelHostname)}},
			}}
		},
	} {
		b.Run(name, func(b *testing.B) {
			profile := defaults()
			for b.Loop() {
				b.StopTimer()
				var state scheduler.State
				for i := range 5000 {
					n := node(fmt.Sprintf("node-%04d", i), "8", "32Gi")
					n.Labels = map[string]string{corev1.LabelHostname: n.Name, corev1.LabelTopologyZone: fmt.Sprint("zone-", i%10)}
					state.SetNode(n)
				}
				planner := scheduler.NewPlanner(&profile)
				place := func(i int) {
					p := pod(fmt.Sprintf("pod-%04d", i), "100m", "128Mi")
					p.Labels = map[string]string{"color": "blue"}
					change(&p.Spec)
					to, err := planner.Place(p, state.Snapshot())
					if err != nil {
						b.Fatal(err)
					}
					p.Spec.NodeName = to
					state.SetPod(p)
				}
				for i := range 1000 {
					place(i)
				}
				b.StartTimer()
				for i := range 1000 {
					place(1000 + i)
				}
			}
			b.ReportMetric(float64(1000*b.N)/b.Elapsed().Seconds(), "pods/s")
		})
	}
}
