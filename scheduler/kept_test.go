package scheduler_test

import (
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/scheduler"
)

// TestNothingIsKept: of pods and nodes that are gone nothing stays, so that memory is bounded by what there is.
func TestNothingIsKept(t *testing.T) {
	var tr trace
	profile := stepwise(&tr)
	n := node("n", "4", "8Gi")
	n.Status.Images = []corev1.ContainerImage{{Names: []string{"nginx"}, SizeBytes: 1 << 20}}
	runProfile(t, profile, scheduler.Options{}, func(t *testing.T, s *server, sched *scheduler.Scheduler) {
		s.nodes.Put(node("gone", "500m", "1Gi")) // too small for all of them
		for _, name := range []string{"a", "b"} {
			s.pods.Put(pod(name, "1", "1Gi"))
		}
		large := pod("large", "64", "1Gi")
		large.Status.NominatedNodeName = "n"
		s.pods.Put(large)
		synctest.Wait()
		if got := s.where()["a"] + s.where()["b"] + s.where()["large"]; got != "nn-" {
			t.Fatalf("the pods are on %s", got)
		}
		same(t, map[string]int{"pending": 1, "nodes": 2, "images": 1}, sched.Kept())
		for _, name := range []string{"a", "b", "large"} {
			s.pods.Delete("default", name)
		}
		synctest.Wait()
		same(t, map[string]int{"nodes": 2, "images": 1}, sched.Kept())
		s.nodes.Delete("", "n")
		s.nodes.Delete("", "gone")
		synctest.Wait()
		same(t, map[string]int{}, sched.Kept())
	}, n)
}

func TestNothingIsKeptOfWrites(t *testing.T) {
	if got := scheduler.KeptOfWrites(t.Context(), "a", "b", "c"); got != 0 {
		t.Errorf("%d pods are kept", got)
	}
}
