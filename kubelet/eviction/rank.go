package eviction

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	helpers "k8s.io/component-helpers/resource"
	"k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// Stats is what pods use, by their UIDs.
type Stats map[string]*v1alpha1.PodStats

// StatsOf returns the Stats in a summary.
func StatsOf(s *v1alpha1.Summary) Stats {
	out := make(Stats, len(s.Pods))
	for i := range s.Pods {
		out[s.Pods[i].PodRef.UID] = &s.Pods[i]
	}
	return out
}

// measure is which parts of a pod's storage count for a signal.
type measure struct{ layers, logs, volumes bool }

// measureOf returns the measure of a signal in a layout.
func measureOf(s Signal, l Layout) measure {
	switch {
	case !l.DedicatedImages:
		return measure{layers: true, logs: true, volumes: true}
	case s == NodeFsAvailable || s == NodeFsInodesFree:
		return measure{layers: l.SplitContainers, logs: true, volumes: true}
	case s == ImageFsAvailable || s == ImageFsInodesFree:
		return measure{layers: !l.SplitContainers}
	case l.SplitContainers:
		return measure{layers: true, logs: true, volumes: true}
	default:
		return measure{layers: true}
	}
}

// candidate is a pod with everything that its rank depends on.
type candidate struct {
	pod      *corev1.Pod
	known    bool // whether its use is known
	exceeds  bool // its use is above its request
	priority int32
	excess   resource.Quantity // use above request
}

// Rank returns the pods in the order in which to evict them when the signal's resource is short. Pods of unknown use
// come first, then those that use more than they requested, then those of lower priority, then those that exceed their
// requests the most. Process IDs cannot be requested, so for them priority comes first. The argument is not modified.
func Rank(pods []*corev1.Pod, stats Stats, s Signal, l Layout) []*corev1.Pod {
	list := make([]candidate, len(pods))
	for i, pod := range pods {
		list[i] = consider(pod, stats[string(pod.UID)], s, l)
	}
	slices.SortStableFunc(list, func(a, b candidate) int {
		if s.resource() == pids {
			return cmp.Or(cmp.Compare(a.priority, b.priority), yesFirst(!a.known, !b.known), b.excess.Cmp(a.excess))
		}
		return cmp.Or(yesFirst(!a.known, !b.known), yesFirst(a.exceeds, b.exceeds), cmp.Compare(a.priority, b.priority), b.excess.Cmp(a.excess))
	})
	out := make([]*corev1.Pod, len(list))
	for i := range list {
		out[i] = list[i].pod
	}
	return out
}

func yesFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

func consider(pod *corev1.Pod, stats *v1alpha1.PodStats, s Signal, l Layout) candidate {
	out := candidate{pod: pod, known: stats != nil}
	if pod.Spec.Priority != nil {
		out.priority = *pod.Spec.Priority
	}
	if stats == nil {
		return out
	}
	requests := helpers.PodRequests(pod, helpers.PodResourcesOptions{})
	var used, exceeding, taken resource.Quantity // the use, the request that it may exceed, the amount subtracted
	switch s.resource() {
	case corev1.ResourceMemory:
		used = *workingSet(stats.Memory)
		exceeding, taken = requests[corev1.ResourceMemory], requests[corev1.ResourceMemory]
	case pids:
		if p := stats.ProcessStats; p != nil && p.ProcessCount != nil {
			used.Set(int64(*p.ProcessCount))
		}
	case inodes:
		_, used = storage(pod, stats, measureOf(s, l))
		// As upstream: the request, in bytes, is subtracted from the number of inodes.
		taken = requests[corev1.ResourceEphemeralStorage]
	default:
		used, _ = storage(pod, stats, measureOf(s, l))
		exceeding, taken = requests[corev1.ResourceEphemeralStorage], requests[corev1.ResourceEphemeralStorage]
	}
	out.exceeds = used.Cmp(exceeding) > 0
	out.excess = used.DeepCopy()
	out.excess.Sub(taken)
	return out
}

func workingSet(m *v1alpha1.MemoryStats) *resource.Quantity {
	if m == nil || m.WorkingSetBytes == nil {
		return &resource.Quantity{Format: resource.BinarySI}
	}
	return resource.NewQuantity(int64(*m.WorkingSetBytes), resource.BinarySI)
}

// storage adds up bytes and inodes.
func storage(pod *corev1.Pod, stats *v1alpha1.PodStats, m measure) (bytes, nodes resource.Quantity) {
	bytes.Format = resource.BinarySI
	add := func(fs *v1alpha1.FsStats) {
		if fs == nil {
			return
		}
		if fs.UsedBytes != nil {
			bytes.Add(*resource.NewQuantity(int64(*fs.UsedBytes), resource.BinarySI))
		}
		if fs.InodesUsed != nil {
			nodes.Add(*resource.NewQuantity(int64(*fs.InodesUsed), resource.DecimalSI))
		}
	}
	for i := range stats.Containers {
		if m.layers {
			add(stats.Containers[i].Rootfs)
		}
		if m.logs {
			add(stats.Containers[i].Logs)
		}
	}
	if !m.volumes {
		return bytes, nodes
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.HostPath == nil && v.ConfigMap == nil && (v.EmptyDir == nil || v.EmptyDir.Medium != corev1.StorageMediumDefault) {
			continue
		}
		for j := range stats.VolumeStats {
			if stats.VolumeStats[j].Name == v.Name {
				add(&stats.VolumeStats[j].FsStats)
				break
			}
		}
	}
	return bytes, nodes
}
