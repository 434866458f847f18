package rank_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/controllers/internal/rank"
)

func TestTrueFirst(t *testing.T) {
	flags := []bool{false, true, false, true}
	slices.SortFunc(flags, rank.TrueFirst)
	if !slices.Equal(flags, []bool{true, true, false, false}) {
		t.Errorf("sorted to %v", flags)
	}
}

func TestPhase(t *testing.T) {
	last := -1
	for _, phase := range []corev1.PodPhase{corev1.PodPending, corev1.PodUnknown, corev1.PodRunning} {
		order := rank.Phase(&corev1.Pod{Status: corev1.PodStatus{Phase: phase}})
		if order <= last {
			t.Errorf("%s does not come later", phase)
		}
		last = order
	}
	if rank.Phase(&corev1.Pod{}) != 0 {
		t.Error("a pod without a phase is not pending")
	}
}

func TestCompareRestarts(t *testing.T) {
	pod := func(containers, sidecars, others int32) *corev1.Pod {
		always := corev1.ContainerRestartPolicyAlways
		return &corev1.Pod{
			Spec: corev1.PodSpec{InitContainers: []corev1.Container{{Name: "s", RestartPolicy: &always}, {Name: "i"}}},
			Status: corev1.PodStatus{
				ContainerStatuses:     []corev1.ContainerStatus{{RestartCount: 0}, {RestartCount: containers}},
				InitContainerStatuses: []corev1.ContainerStatus{{Name: "s", RestartCount: sidecars}, {Name: "i", RestartCount: others}},
			},
		}
	}
	for name, tt := range map[string]struct {
		a, b *corev1.Pod
		want int
	}{
		"containers":            {pod(1, 5, 0), pod(2, 0, 0), -1},
		"sidecars":              {pod(1, 5, 0), pod(1, 4, 0), 1},
		"init containers never": {pod(1, 1, 5), pod(1, 1, 0), 0},
	} {
		if got := rank.CompareRestarts(tt.a, tt.b); got != tt.want {
			t.Errorf("%s: %d", name, got)
		}
	}
}
