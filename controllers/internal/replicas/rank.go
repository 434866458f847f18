package replicas

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/controllers/internal/pods"
	"github.com/keelson-dev/keelson/controllers/internal/rank"
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
			rank.TrueFirst(a.Spec.NodeName == "", b.Spec.NodeName == ""),
			cmp.Compare(rank.Phase(a), rank.Phase(b)),
			rank.TrueFirst(!pods.Ready(a), !pods.Ready(b)),
			cmp.Compare(deletionCost(a), deletionCost(b)),
			cmp.Compare(onNode[b.Spec.NodeName], onNode[a.Spec.NodeName]),
			laterFirst(pods.ReadySince(a), pods.ReadySince(b), a, b, now),
			rank.CompareRestarts(b, a),
			laterFirst(a.CreationTimestamp.Time, b.CreationTimestamp.Time, a, b, now),
			cmp.Compare(a.Name, b.Name),
		)
	})
	return sorted[:n]
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
		return rank.TrueFirst(x.IsZero(), y.IsZero())
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
