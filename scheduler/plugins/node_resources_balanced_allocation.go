package plugins

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/signature"
)

// NodeResourcesBalancedAllocation prefers nodes on which the pod brings the requested shares of CPU and memory
// closer together: 75 if it changes nothing, up to 100 if it improves the balance, down to 50 if it worsens it.
// It skips pods that request neither.
type NodeResourcesBalancedAllocation struct{}

// Name returns "NodeResourcesBalancedAllocation".
func (NodeResourcesBalancedAllocation) Name() string { return "NodeResourcesBalancedAllocation" }

// Score compares the balance with the pod and without it.
func (NodeResourcesBalancedAllocation) Score(pod *corev1.Pod, node *scheduler.NodeInfo) int64 {
	cpu, memory := requested(pod)
	if cpu == 0 && memory == 0 {
		return 0
	}
	return balance(cpu, memory, node)
}

// PrepareScores sums up the pod once.
func (NodeResourcesBalancedAllocation) PrepareScores(pod *corev1.Pod, _ *scheduler.Snapshot, _ []*scheduler.NodeInfo) (scheduler.PreparedScores, error) {
	cpu, memory := requested(pod)
	return scheduler.PreparedScores{
		Skip:  cpu == 0 && memory == 0,
		Score: func(n *scheduler.NodeInfo) int64 { return balance(cpu, memory, n) },
	}, nil
}

func requested(pod *corev1.Pod) (milliCPU, memory int64) {
	requests := resource.PodRequests(pod, resource.PodResourcesOptions{
		UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true,
	})
	return requests.Cpu().MilliValue(), requests.Memory().Value()
}

func balance(cpu, memory int64, node *scheduler.NodeInfo) int64 {
	with := evenness(node.Requested.MilliCPU+cpu, node.Requested.Memory+memory, node)
	without := evenness(node.Requested.MilliCPU, node.Requested.Memory, node)
	return scheduler.MaxScore/2 + (scheduler.MaxScore/2+with-without)/2
}

// evenness returns 100 less the standard deviation of the two requested shares in percent, rounded down. For
// two numbers the deviation is half their difference.
func evenness(cpu, memory int64, node *scheduler.NodeInfo) int64 {
	if node.Allocatable.MilliCPU == 0 || node.Allocatable.Memory == 0 {
		return scheduler.MaxScore
	}
	a := min(float64(cpu)/float64(node.Allocatable.MilliCPU), 1)
	b := min(float64(memory)/float64(node.Allocatable.Memory), 1)
	return int64((1 - math.Abs((a-b)/2)) * float64(scheduler.MaxScore))
}

// Signature appends the pod's requests.
func (NodeResourcesBalancedAllocation) Signature(b []byte, pod *corev1.Pod) ([]byte, bool) {
	return signature.Requests(b, pod)
}
