package cgroup

import (
	corev1 "k8s.io/api/core/v1"
	helpers "k8s.io/component-helpers/resource"

	"github.com/keelson-dev/keelson/podspec/qos"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/podspec/critical"
	"github.com/keelson-dev/keelson/podspec/restart"
)

// Machine describes the machine, as far as containers' resources depend on it.
type Machine struct {
	// MemoryCapacity is the machine's memory in bytes. The OOM scores of burstable containers are relative to it; with
	// 0 they are treated as if they requested nothing.
	MemoryCapacity int64
	// HugepageSizes are the sizes of huge pages whose use can be limited, such as "2MB".
	HugepageSizes []string
	// Unified is set if the machine has cgroup v2.
	Unified bool
	// Swap is set if the use of swap can be limited. Containers then get none.
	Swap bool
	// OOMGroup kills all processes of a container when one runs out of memory. It requires cgroup v2, where it is
	// upstream's default.
	OOMGroup bool
	// Quotas sets how CPU limits are enforced.
	Quotas Quotas
}

// OOM score adjustments.
const (
	guaranteedScore = -997
	bestEffortScore = 1000
)

// Resources returns the resources of one of a pod's containers, for the runtime.
func Resources(pod *corev1.Pod, container *corev1.Container, machine Machine) cri.Resources {
	limits := container.Resources.Limits
	cpuLimit, memoryLimit := *limits.Cpu(), *limits.Memory()
	if helpers.IsPodLevelResourcesSet(pod) {
		own := pod.Spec.Resources.Limits
		if cpuLimit.IsZero() {
			cpuLimit = *own.Cpu()
		}
		if memoryLimit.IsZero() {
			memoryLimit = *own.Memory()
		}
	}
	request, requested := container.Resources.Requests[corev1.ResourceCPU]
	if !requested {
		request = cpuLimit
	}
	out := cri.Resources{
		CPUShares:   int64(Shares(request.MilliValue())),
		MemoryLimit: memoryLimit.Value(),
		OOMScoreAdj: OOMScore(pod, container, machine.MemoryCapacity),
		Hugepages:   hugepageLimits(pod, container, machine.HugepageSizes),
	}
	if !machine.Quotas.Off {
		out.CPUPeriod = machine.Quotas.period()
		out.CPUQuota = Quota(cpuLimit.MilliValue(), out.CPUPeriod)
	}
	unified := map[string]string{}
	if machine.Unified && machine.OOMGroup {
		unified["memory.oom.group"] = "1"
	}
	if machine.Swap && machine.Unified {
		unified["memory.swap.max"] = "0"
	} else if machine.Swap {
		out.MemorySwapLimit = out.MemoryLimit
	}
	if len(unified) > 0 {
		out.Unified = unified
	}
	return out
}

// hugepageLimits limits the huge pages of each size to the limit of the container, or else of its pod.
func hugepageLimits(pod *corev1.Pod, container *corev1.Container, sizes []string) []cri.HugepageLimit {
	limits := map[string]uint64{}
	lists := []corev1.ResourceList{container.Resources.Limits}
	if helpers.IsPodLevelResourcesSet(pod) {
		lists = []corev1.ResourceList{pod.Spec.Resources.Limits, container.Resources.Limits}
	}
	for _, list := range lists {
		for name, quantity := range list {
			if size, ok := pageSize(name); ok {
				limits[pageUnit(size)] = uint64(max(quantity.Value(), 0))
			}
		}
	}
	var out []cri.HugepageLimit
	for _, size := range sizes {
		out = append(out, cri.HugepageLimit{PageSize: size, Limit: limits[size]})
	}
	return out
}

// OOMScore returns the OOM score adjustment of a container, by which the kernel chooses what to kill when memory runs
// out: low in guaranteed and node-critical pods, high for containers without requests, and in between lower the more of
// the machine's memory (in bytes) the container requests.
func OOMScore(pod *corev1.Pod, container *corev1.Container, memory int64) int64 {
	if critical.ForNode(pod) {
		return guaranteedScore
	}
	switch qos.Class(pod) {
	case corev1.PodQOSGuaranteed:
		return guaranteedScore
	case corev1.PodQOSBestEffort:
		return bestEffortScore
	}
	score := func(request int64) int64 {
		if memory <= 0 {
			return bestEffortScore
		}
		// Divide before multiplying where the product would overflow.
		if request > (1<<63-1)/1000 {
			return 1000 - request/memory*1000
		}
		return 1000 - 1000*request/memory
	}
	share := unclaimedMemory(pod)
	out := score(container.Resources.Requests.Memory().Value() + share)
	// For other containers the policy does not matter: a sidecar's score is no higher than that of the regular
	// container with the smallest request.
	if restart.Sidecar(container) {
		least := int64(0)
		for i := range pod.Spec.Containers {
			request := pod.Spec.Containers[i].Resources.Requests.Memory().Value()
			if i == 0 || request < least {
				least = request
			}
		}
		out = min(out, score(least+share))
	}
	return min(max(out, 1000+guaranteedScore), bestEffortScore-1)
}

// unclaimedMemory is each container's share of what the pod requests beyond the sum of its containers.
func unclaimedMemory(pod *corev1.Pod) int64 {
	if !helpers.IsPodLevelRequestsSet(pod) || pod.Spec.Resources.Requests.Memory().IsZero() {
		return 0
	}
	claimed := helpers.AggregateContainerRequests(pod, helpers.PodResourcesOptions{})
	containers := int64(len(pod.Spec.Containers) + len(pod.Spec.InitContainers))
	if containers == 0 {
		return 0
	}
	return (pod.Spec.Resources.Requests.Memory().Value() - claimed.Memory().Value()) / containers
}
