package priorities

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/resource"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/internal/signature"
)

// NodeResourcesFit prefers nodes of which the least is requested, with this pod: the mean over
// CPU and memory of the free share of what is allocatable. Containers that request nothing
// count with 100m CPU and 200Mi memory. Like upstream, and unlike the predicate of this name, it
// does not look at what a pod requests as a whole (KEP-2837).
type NodeResourcesFit struct {
	// Most turns it round, to fill nodes one after the other: the mean of the requested shares
	// (scoring strategy MostAllocated upstream).
	Most bool
}

// Name is "NodeResourcesFit".
func (NodeResourcesFit) Name() string { return "NodeResourcesFit" }

// Score is the mean share in percent.
func (f NodeResourcesFit) Score(pod *corev1.Pod, node *scheduler.NodeInfo) int64 {
	cpu, memory := nonZero(pod)
	return f.mean(cpu, memory, node)
}

// PrepareScores sums the pod up once.
func (f NodeResourcesFit) PrepareScores(pod *corev1.Pod, _ *scheduler.Snapshot, _ []*scheduler.NodeInfo) (scheduler.PreparedScores, error) {
	cpu, memory := nonZero(pod)
	return scheduler.PreparedScores{Score: func(n *scheduler.NodeInfo) int64 { return f.mean(cpu, memory, n) }}, nil
}

func nonZero(pod *corev1.Pod) (milliCPU, memory int64) {
	requests := resource.PodRequests(pod, resource.PodResourcesOptions{
		SkipPodLevelResources: true,
		NonMissingContainerRequests: corev1.ResourceList{
			corev1.ResourceCPU:    *apiresource.NewMilliQuantity(scheduler.DefaultMilliCPURequest, apiresource.DecimalSI),
			corev1.ResourceMemory: *apiresource.NewQuantity(scheduler.DefaultMemoryRequest, apiresource.BinarySI),
		},
	})
	return requests.Cpu().MilliValue(), requests.Memory().Value()
}

func (f NodeResourcesFit) mean(cpu, memory int64, node *scheduler.NodeInfo) int64 {
	var sum, resources int64
	add := func(requested, allocatable int64) {
		if allocatable == 0 {
			return
		}
		resources++
		share := min(requested, allocatable)
		if !f.Most {
			share = allocatable - share
		}
		sum += share * scheduler.MaxScore / allocatable
	}
	add(node.NonZeroMilliCPU+cpu, node.Allocatable.MilliCPU)
	add(node.NonZeroMemory+memory, node.Allocatable.Memory)
	if resources == 0 {
		return 0
	}
	return sum / resources
}

// Signature is the pod's requests.
func (NodeResourcesFit) Signature(b []byte, pod *corev1.Pod) ([]byte, bool) {
	return signature.Requests(b, pod)
}

// NodeResourcesBalancedAllocation prefers nodes where the pod brings the requested shares of
// CPU and memory closer together: 75 when it changes nothing, up to 100 when it helps, down to
// 50 when it makes things worse. It has no opinion on pods that request neither.
type NodeResourcesBalancedAllocation struct{}

// Name is "NodeResourcesBalancedAllocation".
func (NodeResourcesBalancedAllocation) Name() string { return "NodeResourcesBalancedAllocation" }

// Score compares the balance with the pod and without it.
func (NodeResourcesBalancedAllocation) Score(pod *corev1.Pod, node *scheduler.NodeInfo) int64 {
	cpu, memory := requested(pod)
	if cpu == 0 && memory == 0 {
		return 0
	}
	return balance(cpu, memory, node)
}

// PrepareScores sums the pod up once.
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

// evenness is 100 less the standard deviation of the two requested shares in percent, rounded
// down. For two numbers that deviation is half their difference.
func evenness(cpu, memory int64, node *scheduler.NodeInfo) int64 {
	if node.Allocatable.MilliCPU == 0 || node.Allocatable.Memory == 0 {
		return scheduler.MaxScore
	}
	a := min(float64(cpu)/float64(node.Allocatable.MilliCPU), 1)
	b := min(float64(memory)/float64(node.Allocatable.Memory), 1)
	return int64((1 - math.Abs((a-b)/2)) * float64(scheduler.MaxScore))
}

// Signature is the pod's requests.
func (NodeResourcesBalancedAllocation) Signature(b []byte, pod *corev1.Pod) ([]byte, bool) {
	return signature.Requests(b, pod)
}
