package plugins

import (
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/signature"
)

// NodeResourcesBalancedAllocation prefers nodes on which the pod brings the requested shares of some resources
// closer together: 75 if it changes nothing, up to 100 if it improves the balance, down to 50 if it worsens it.
// It skips pods that request none of them.
type NodeResourcesBalancedAllocation struct {
	// Resources are those that count, nil means CPU and memory. Extended resources and the like count only for pods that
	// request them.
	Resources []corev1.ResourceName
}

// Name returns "NodeResourcesBalancedAllocation".
func (NodeResourcesBalancedAllocation) Name() string { return "NodeResourcesBalancedAllocation" }

// Score compares the balance with the pod and without it.
func (b NodeResourcesBalancedAllocation) Score(pod *corev1.Pod, node *scheduler.NodeInfo) int64 {
	prepared, err := b.PrepareScores(pod, nil, nil)
	if err != nil || prepared.Skip {
		return 0
	}
	return prepared.Score(node)
}

// PrepareScores sums up the pod once.
func (b NodeResourcesBalancedAllocation) PrepareScores(pod *corev1.Pod, _ *scheduler.Snapshot, _ []*scheduler.NodeInfo) (scheduler.PreparedScores, error) {
	of := make([]WeightedResource, len(b.Resources))
	for i, name := range b.Resources {
		of[i].Name = name
	}
	of = orCPUAndMemory(of)
	wanted := amounts(resource.PodRequests(pod, resource.PodResourcesOptions{
		UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true,
	}), of)
	return scheduler.PreparedScores{
		Skip:  !slices.ContainsFunc(wanted, func(n int64) bool { return n != 0 }),
		Score: func(n *scheduler.NodeInfo) int64 { return balance(wanted, of, n) },
	}, nil
}

func balance(wanted []int64, of []WeightedResource, node *scheduler.NodeInfo) int64 {
	var room [8]float64
	with, without := room[:0:4], room[4:4]
	for i, r := range of {
		offered, requested := supply(node, r.Name, wanted[i])
		if offered == 0 {
			continue
		}
		with = append(with, min(float64(requested+wanted[i])/float64(offered), 1))
		without = append(without, min(float64(requested)/float64(offered), 1))
	}
	return scheduler.MaxScore/2 + (scheduler.MaxScore/2+evenness(with)-evenness(without))/2
}

// evenness returns 100 less the standard deviation of the requested shares in percent, rounded down.
func evenness(shares []float64) int64 {
	deviation := 0.0
	switch {
	case len(shares) == 2:
		deviation = math.Abs((shares[0] - shares[1]) / 2)
	case len(shares) > 2:
		var sum, squares float64
		for _, s := range shares {
			sum += s
		}
		mean := sum / float64(len(shares))
		for _, s := range shares {
			squares += (s - mean) * (s - mean)
		}
		deviation = math.Sqrt(squares / float64(len(shares)))
	}
	return int64((1 - deviation) * float64(scheduler.MaxScore))
}

// Signature appends the pod's requests.
func (NodeResourcesBalancedAllocation) Signature(b []byte, pod *corev1.Pod) ([]byte, bool) {
	return signature.Requests(b, pod)
}
