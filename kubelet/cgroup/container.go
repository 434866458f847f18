package cgroup

import (
	corev1 "k8s.io/api/core/v1"
	helpers "k8s.io/component-helpers/resource"

	"github.com/keelson-dev/keelson/cri"
)

// Machine is what the resources of containers depend on besides their pods.
type Machine struct {
	// MemoryCapacity is the machine's memory in bytes. Burstable containers are weighed against it;
	// with 0 they are treated as if they had asked for nothing.
	MemoryCapacity int64
	// HugepageSizes are the sizes of huge pages whose use can be limited, such as "2MB".
	HugepageSizes []string
	// Unified is set with cgroup v2.
	Unified bool
	// Swap is set when the use of swap can be limited. Containers get none then.
	Swap bool
	// OOMGroup ends all processes of a container when one runs out of memory. It takes cgroup v2,
	// and is what upstream does there by default.
	OOMGroup bool
	// Quotas say how CPU limits are enforced.
	Quotas Quotas
}

// Scores for the kernel's choice of whom to end when memory runs out.
const (
	guaranteedScore = -997
	bestEffortScore = 1000
)

// Resources is what a runtime is told about the resources of one of a pod's containers.
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

// hugepageLimits limits pages of each size to what the container, or else its pod, may have of them.
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

// OOMScore is added to the score by which the kernel chooses whom to end when memory runs out: low for
// guaranteed and node-critical pods, high for those that asked for nothing, and in between the lower
// the more of the memory (in bytes) a container asked for.
func OOMScore(pod *corev1.Pod, container *corev1.Container, memory int64) int64 {
	if nodeCritical(pod) {
		return guaranteedScore
	}
	switch Class(pod) {
	case corev1.PodQOSGuaranteed:
		return guaranteedScore
	case corev1.PodQOSBestEffort:
		return bestEffortScore
	}
	score := func(request int64) int64 {
		if memory <= 0 {
			return bestEffortScore
		}
		// Divided before it is multiplied where the product would not fit.
		if request > (1<<63-1)/1000 {
			return 1000 - request/memory*1000
		}
		return 1000 - 1000*request/memory
	}
	share := unclaimedMemory(pod)
	out := score(container.Resources.Requests.Memory().Value() + share)
	if restartable(container) {
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

// unclaimedMemory is each container's share of what the pod asks for beyond what they ask for.
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

// restartable says of an init container that it is a sidecar. Of others it does not matter: their score
// is no higher than that of the one that asked for the least.
func restartable(container *corev1.Container) bool {
	return container.RestartPolicy != nil && *container.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// nodeCritical: the node does not work without the pod.
func nodeCritical(pod *corev1.Pod) bool {
	if pod.Spec.PriorityClassName != "system-node-critical" {
		return false
	}
	source := pod.Annotations["kubernetes.io/config.source"]
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	const systemCritical = 2_000_000_000
	return mirror || (source != "" && source != "api") || (pod.Spec.Priority != nil && *pod.Spec.Priority >= systemCritical)
}
