package replicas

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/controllers/internal/pods"
	"github.com/keelson-dev/keelson/podspec/restart"
)

// victims returns the n active pods to delete. In this order: pods without a node, pods that are pending or of unknown
// phase, pods that are not ready, pods with a lower deletion cost, pods that share their node with more related pods,
// pods that became ready later, pods that restarted more often, pods that were created later. Ages with the same power
// of two are equal, and then the uid decides, which avoids always deleting the newest of many equal pods (KEP-2185).
// The last criterion is the name.
func victims(active, related []*corev1.Pod, n int, now time.Time) []*corev1.Pod {
	if n >= len(active) {
		return active
	}
	onNode := map[string]int{}
	for _, pod := range related {
		if pods.Active(pod) {
			onNode[pod.Spec.NodeName]++
		}
	}
	sorted := slices.Clone(active)
	slices.SortStableFunc(sorted, func(a, b *corev1.Pod) int {
		return cmp.Or(
			trueFirst(a.Spec.NodeName == "", b.Spec.NodeName == ""),
			cmp.Compare(phaseOrder(a), phaseOrder(b)),
			trueFirst(!pods.Ready(a), !pods.Ready(b)),
			cmp.Compare(deletionCost(a), deletionCost(b)),
			cmp.Compare(onNode[b.Spec.NodeName], onNode[a.Spec.NodeName]),
			laterFirst(pods.ReadySince(a), pods.ReadySince(b), a, b, now),
			compareRestarts(b, a),
			laterFirst(a.CreationTimestamp.Time, b.CreationTimestamp.Time, a, b, now),
			cmp.Compare(a.Name, b.Name),
		)
	})
	return sorted[:n]
}

func trueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

func phaseOrder(pod *corev1.Pod) int {
	switch pod.Status.Phase {
	case corev1.PodUnknown:
		return 1
	case corev1.PodRunning:
		return 2
	}
	return 0
}

// deletionCost reads the annotation controller.kubernetes.io/pod-deletion-cost; anything but a plain int32 counts as 0.
func deletionCost(pod *corev1.Pod) int32 {
	value := pod.Annotations[corev1.PodDeletionCost]
	if value == "" || value[0] == '+' || value[0] == '0' {
		return 0
	}
	cost, err := strconv.ParseInt(value, 10, 32)
	if err != nil {
		return 0
	}
	return int32(cost)
}

// laterFirst compares two times of two pods: the zero time comes first, then the later one.
func laterFirst(x, y time.Time, a, b *corev1.Pod, now time.Time) int {
	if x.Equal(y) {
		return 0
	}
	if x.IsZero() || y.IsZero() {
		return trueFirst(x.IsZero(), y.IsZero())
	}
	return cmp.Or(cmp.Compare(magnitude(now.Sub(x)), magnitude(now.Sub(y))), cmp.Compare(a.UID, b.UID))
}

// magnitude is the power of two of an age, or -1 for none.
func magnitude(age time.Duration) int {
	if age <= 0 {
		return -1
	}
	return int(math.Log2(float64(age)))
}

// compareRestarts orders pods by the highest restart count of their containers, then of their sidecars.
func compareRestarts(a, b *corev1.Pod) int {
	containersA, sidecarsA := mostRestarts(a)
	containersB, sidecarsB := mostRestarts(b)
	return cmp.Or(cmp.Compare(containersA, containersB), cmp.Compare(sidecarsA, sidecarsB))
}

func mostRestarts(pod *corev1.Pod) (containers, sidecars int32) {
	for _, s := range pod.Status.ContainerStatuses {
		containers = max(containers, s.RestartCount)
	}
	sidecar := map[string]bool{}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; restart.Sidecar(c) {
			sidecar[c.Name] = true
		}
	}
	for _, s := range pod.Status.InitContainerStatuses {
		if sidecar[s.Name] {
			sidecars = max(sidecars, s.RestartCount)
		}
	}
	return containers, sidecars
}
