package plugins

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/resource"

	"github.com/keelson-dev/keelson/scheduler"
)

// Strategy is what NodeResourcesFit prefers.
type Strategy string

// The strategies, by upstream's names.
const (
	LeastAllocated           Strategy = "LeastAllocated"           // the largest free share
	MostAllocated            Strategy = "MostAllocated"            // the smallest free share, to fill nodes one after the other
	RequestedToCapacityRatio Strategy = "RequestedToCapacityRatio" // what Scoring.Shape says of the requested share
)

// Scoring is how NodeResourcesFit prefers nodes: by the weighted mean over some resources. The zero value is upstream's
// default.
type Scoring struct {
	// Strategy scores one resource; empty means LeastAllocated.
	Strategy Strategy
	// Resources are those that count; nil means CPU and memory alike. Extended resources and the like count only for pods
	// that request them.
	Resources []WeightedResource
	// Shape is for RequestedToCapacityRatio, where resources of score 0 do not count in the mean.
	Shape Shape
}

// WeightedResource is a resource and its weight in a mean.
type WeightedResource struct {
	Name   corev1.ResourceName
	Weight int64 // at least 1
}

// Shape is a score by utilization: straight lines between points, sorted by their utilization, and the score of the first and
// the last point beyond them.
type Shape []Point

// Point is a point of a Shape.
type Point struct {
	// Utilization is in percent, and Score from 0 to 100.
	Utilization, Score int64
}

// At returns the score at a utilization in percent; 0 if there is no point.
func (s Shape) At(utilization int64) int64 {
	for i, p := range s {
		switch {
		case utilization > p.Utilization:
		case i == 0:
			return p.Score
		default:
			before := s[i-1]
			return before.Score + (p.Score-before.Score)*(utilization-before.Utilization)/(p.Utilization-before.Utilization)
		}
	}
	if len(s) == 0 {
		return 0
	}
	return s[len(s)-1].Score
}

// cpuAndMemory are the resources that count by default.
func cpuAndMemory() []WeightedResource {
	return []WeightedResource{{corev1.ResourceCPU, 1}, {corev1.ResourceMemory, 1}}
}

func orCPUAndMemory(r []WeightedResource) []WeightedResource {
	if len(r) == 0 {
		return cpuAndMemory()
	}
	return r
}

// amounts returns what a list has of some resources.
func amounts(list corev1.ResourceList, of []WeightedResource) []int64 {
	all := make([]int64, len(of))
	for i, r := range of {
		q := list[r.Name]
		if all[i] = q.Value(); r.Name == corev1.ResourceCPU {
			all[i] = q.MilliValue()
		}
	}
	return all
}

// nonZero returns what a pod requests of some resources, with defaults for containers that request no CPU or memory.
func nonZero(pod *corev1.Pod, of []WeightedResource) []int64 {
	return amounts(resource.PodRequests(pod, resource.PodResourcesOptions{
		SkipPodLevelResources: true,
		NonMissingContainerRequests: corev1.ResourceList{
			corev1.ResourceCPU:    *apiresource.NewMilliQuantity(scheduler.DefaultMilliCPURequest, apiresource.DecimalSI),
			corev1.ResourceMemory: *apiresource.NewQuantity(scheduler.DefaultMemoryRequest, apiresource.BinarySI),
		},
	}), of)
}

// supply returns how much of a resource a node offers and how much is requested of it, for a pod that requests some amount;
// 0 if the resource does not count.
func supply(node *scheduler.NodeInfo, name corev1.ResourceName, wanted int64) (offered, requested int64) {
	switch name {
	case corev1.ResourceCPU:
		return node.Allocatable.MilliCPU, node.Requested.MilliCPU
	case corev1.ResourceMemory:
		return node.Allocatable.Memory, node.Requested.Memory
	case corev1.ResourceEphemeralStorage:
		return node.Allocatable.EphemeralStorage, node.Requested.EphemeralStorage
	}
	if wanted == 0 {
		return 0, 0
	}
	return node.Allocatable.Scalars[name], node.Requested.Scalars[name]
}

// score returns the score of a node for a pod that requests some amounts of the resources.
func (s *Scoring) score(wanted []int64, of []WeightedResource, node *scheduler.NodeInfo) int64 {
	var sum, weights int64
	for i, r := range of {
		offered, requested := supply(node, r.Name, wanted[i])
		if offered == 0 {
			continue
		}
		switch r.Name {
		case corev1.ResourceCPU:
			requested = node.NonZeroMilliCPU
		case corev1.ResourceMemory:
			requested = node.NonZeroMemory
		}
		one := s.one(min(requested+wanted[i], offered), offered)
		if one == 0 && s.Strategy == RequestedToCapacityRatio {
			continue
		}
		sum += one * r.Weight
		weights += r.Weight
	}
	switch {
	case weights == 0:
		return 0
	case s.Strategy == RequestedToCapacityRatio:
		return int64(math.Round(float64(sum) / float64(weights)))
	}
	return sum / weights
}

// one returns the score for one resource.
func (s *Scoring) one(requested, offered int64) int64 {
	switch s.Strategy {
	case MostAllocated:
		return requested * scheduler.MaxScore / offered
	case RequestedToCapacityRatio:
		return s.Shape.At(requested * 100 / offered)
	}
	return (offered - requested) * scheduler.MaxScore / offered
}
