package eviction_test

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/keelson-dev/keelson/kubelet/eviction"
)

const (
	mebi = 1 << 20
	gibi = 1 << 30
)

func ptr[T any](v T) *T { return &v }

func list(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

// newPod is a pod of one container "c" with a priority, requests and limits.
func newPod(name string, priority int32, requests, limits corev1.ResourceList) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name), Generation: 3},
		Spec: corev1.PodSpec{Priority: &priority, Containers: []corev1.Container{
			{Name: "c", Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}},
		}},
	}
}

func fs(bytes, inodes uint64) *v1alpha1.FsStats {
	return &v1alpha1.FsStats{UsedBytes: &bytes, InodesUsed: &inodes}
}

// use is what one of these pods uses: memory, and disk space for its layer, its logs and its volume "v".
func use(name string, memory, layer, logs, volume uint64) v1alpha1.PodStats {
	return v1alpha1.PodStats{
		PodRef: v1alpha1.PodReference{Name: name, Namespace: "default", UID: name},
		Memory: &v1alpha1.MemoryStats{WorkingSetBytes: &memory},
		Containers: []v1alpha1.ContainerStats{{
			Name: "c", Memory: &v1alpha1.MemoryStats{WorkingSetBytes: &memory}, Rootfs: fs(layer, layer/4096), Logs: fs(logs, 1),
		}},
		VolumeStats:      []v1alpha1.VolumeStats{{Name: "v", FsStats: *fs(volume, 10)}},
		EphemeralStorage: fs(layer+logs+volume, 0),
		ProcessStats:     &v1alpha1.ProcessStats{ProcessCount: ptr(memory / mebi)},
	}
}

// summary returns the summary of a node with 10 GiB of memory and disk, of which the given amounts are available.
func summary(at time.Time, memory, disk uint64, pods ...v1alpha1.PodStats) *v1alpha1.Summary {
	t := metav1.NewTime(at)
	filesystem := func() *v1alpha1.FsStats {
		return &v1alpha1.FsStats{Time: t, AvailableBytes: &disk, CapacityBytes: ptr[uint64](10 * gibi), InodesFree: ptr[uint64](900), Inodes: ptr[uint64](1000)}
	}
	return &v1alpha1.Summary{
		Node: v1alpha1.NodeStats{
			Memory:  &v1alpha1.MemoryStats{Time: t, AvailableBytes: &memory, WorkingSetBytes: ptr(10*gibi - memory)},
			Fs:      filesystem(),
			Runtime: &v1alpha1.RuntimeStats{ImageFs: filesystem(), ContainerFs: filesystem()},
			Rlimit:  &v1alpha1.RlimitStats{Time: t, MaxPID: ptr[int64](1000), NumOfRunningProcesses: ptr[int64](100)},
		},
		Pods: pods,
	}
}

func statsOf(pods ...v1alpha1.PodStats) eviction.Stats {
	return eviction.StatsOf(&v1alpha1.Summary{Pods: pods})
}
