package cgroup

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/keelson-dev/keelson/internal/boundedquantity"
	"github.com/keelson-dev/keelson/podspec/qos"

	corev1 "k8s.io/api/core/v1"
	helpers "k8s.io/component-helpers/resource"

	"github.com/keelson-dev/keelson/podspec/restart"
)

// What the kernel accepts.
const (
	minShares    = 2
	maxShares    = 262144
	sharesPerCPU = 1024
	minQuota     = 1000 // microseconds
)

// DefaultPeriod is the default period of CPU quotas.
const DefaultPeriod = 100 * time.Millisecond

// Limits are the limits of a cgroup. Those that are 0 or missing are left unchanged.
type Limits struct {
	// CPUShares is the weight in units of cgroup v1, 1024 per CPU.
	CPUShares uint64
	// CPUQuota is the CPU time, in microseconds, that may be used in each CPUPeriod; -1 is unlimited.
	CPUQuota  int64
	CPUPeriod uint64
	// Memory is in bytes; -1 is unlimited.
	Memory int64
	// Pids is the maximum number of processes and threads; -1 is unlimited.
	Pids int64
	// Hugepages are limits in bytes, by page size in bytes.
	Hugepages map[int64]int64
}

// Quotas sets how CPU limits are enforced; the zero value is upstream's default.
type Quotas struct {
	// Off leaves CPU limits unenforced.
	Off bool
	// Period is the period of quotas; 0 is DefaultPeriod.
	Period time.Duration
}

func (q Quotas) period() int64 { return int64(cmp.Or(q.Period, DefaultPeriod) / time.Microsecond) }

// Shares converts a CPU request, in thousandths of a CPU, to a weight in shares.
func Shares(milliCPU int64) uint64 {
	return uint64(min(max(milliCPU*sharesPerCPU/1000, minShares), maxShares))
}

// Quota converts a CPU limit, in thousandths of a CPU, to the CPU time allowed in each period. Both times are in
// microseconds; without a limit the quota is 0.
func Quota(milliCPU, period int64) int64 {
	if milliCPU == 0 {
		return 0
	}
	return max(milliCPU*period/1000, minQuota)
}

// PodLimits returns the limits of a pod's cgroup: those of the pod's own requests and limits, or of all its containers
// together, with init containers, sidecars and the overhead counted like in the scheduler. CPU and memory are limited
// only if every container limits them.
func PodLimits(pod *corev1.Pod, quotas Quotas) Limits {
	requests := helpers.PodRequests(pod, helpers.PodResourcesOptions{})
	limits := helpers.PodLimits(pod, helpers.PodResourcesOptions{})
	cpuLimited, memoryLimited := limited(pod, corev1.ResourceCPU), limited(pod, corev1.ResourceMemory)
	if helpers.IsPodLevelResourcesSet(pod) {
		own := pod.Spec.Resources.Limits
		cpuLimited = cpuLimited || !own.Cpu().IsZero()
		memoryLimited = memoryLimited || !own.Memory().IsZero()
	}
	out := Limits{CPUShares: Shares(requests.Cpu().MilliValue()), Hugepages: hugepages(requests)}
	class := qos.Class(pod)
	if class == corev1.PodQOSBestEffort {
		out.CPUShares = minShares
		return out
	}
	if class == corev1.PodQOSGuaranteed || cpuLimited {
		out.CPUPeriod = uint64(quotas.period())
		out.CPUQuota = Quota(limits.Cpu().MilliValue(), quotas.period())
		if quotas.Off {
			out.CPUQuota = -1
		}
	}
	if class == corev1.PodQOSGuaranteed || memoryLimited {
		out.Memory = limits.Memory().Value()
	}
	return out
}

// limited reports whether every container has a limit. As upstream, an init container without one counts as limited if
// a sidecar before it is.
func limited(pod *corev1.Pod, name corev1.ResourceName) bool {
	for i := range pod.Spec.Containers {
		if limit := pod.Spec.Containers[i].Resources.Limits[name]; limit.IsZero() {
			return false
		}
	}
	before := false
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if limit := c.Resources.Limits[name]; limit.IsZero() && !before {
			return false
		}
		before = before || restart.Sidecar(c)
	}
	return true
}

// NodeLimits returns the limits of all pods of a node together, from what the node offers them.
func NodeLimits(offered corev1.ResourceList) Limits {
	out := Limits{Hugepages: hugepages(offered)}
	if q, ok := offered[corev1.ResourceCPU]; ok {
		out.CPUShares = Shares(q.MilliValue())
	}
	if q, ok := offered[corev1.ResourceMemory]; ok {
		out.Memory = q.Value()
	}
	if q, ok := offered["pid"]; ok {
		out.Pids = q.Value()
	}
	return out
}

// burstableRequest is a pod's contribution to the weight of the burstable class, in thousandths of a CPU.
func burstableRequest(pod *corev1.Pod) int64 {
	if qos.Class(pod) != corev1.PodQOSBurstable {
		return 0
	}
	requests := helpers.PodRequests(pod, helpers.PodResourcesOptions{})
	return requests.Cpu().MilliValue()
}

func hugepages(list corev1.ResourceList) map[int64]int64 {
	var out map[int64]int64
	for name, quantity := range list {
		size, ok := pageSize(name)
		if !ok {
			continue
		}
		if out == nil {
			out = map[int64]int64{}
		}
		out[size] += quantity.Value()
	}
	return out
}

// pageSize returns the page size, in bytes, of a resource such as hugepages-2Mi.
func pageSize(name corev1.ResourceName) (int64, bool) {
	size, ok := strings.CutPrefix(string(name), corev1.ResourceHugePagesPrefix)
	if !ok {
		return 0, false
	}
	q, _ := boundedquantity.Parse(size) // zero if invalid
	return q.Value(), q.Sign() > 0
}

// pageUnit returns the name of a positive page size in the kernel's files, such as 2MB.
func pageUnit(bytes int64) string {
	unit := 0
	for unit < 3 && bytes%1024 == 0 {
		bytes /= 1024
		unit++
	}
	return strconv.FormatInt(bytes, 10) + []string{"B", "KB", "MB", "GB"}[unit]
}
