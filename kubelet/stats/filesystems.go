package stats

import (
	"context"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/keelson-dev/keelson/cri"
)

// VolumeDir returns a function that finds volumes where upstream's kubelet keeps them: below pods in its own directory,
// or at their path on the host. It leaves out volumes that take no space on the node.
func VolumeDir(kubeletDir string) func(*corev1.Pod, *corev1.Volume) string {
	return func(pod *corev1.Pod, volume *corev1.Volume) string {
		var kind string
		switch s := volume.VolumeSource; {
		case s.EmptyDir != nil:
			kind = "empty-dir"
		case s.ConfigMap != nil:
			kind = "configmap"
		case s.Secret != nil:
			kind = "secret"
		case s.DownwardAPI != nil:
			kind = "downward-api"
		case s.Projected != nil:
			kind = "projected"
		default:
			return ""
		}
		return filepath.Join(kubeletDir, "pods", string(pod.UID), "volumes", "kubernetes.io~"+kind, volume.Name)
	}
}

// addFilesystems fills in what takes space on filesystems.
func (c *Collector) addFilesystems(ctx context.Context, out *v1alpha1.Summary, s *snapshot) {
	at := metav1.NewTime(s.at)
	out.Node.Fs = c.filesystem(c.options.NodeDir, at)
	layers := c.runtimeFilesystems(ctx, out, at)
	pods := map[types.UID]*corev1.Pod{}
	for _, pod := range c.options.Pods() {
		pods[pod.UID] = pod
	}
	for i := range out.Pods {
		c.addPod(ctx, &out.Pods[i], &s.pods[i], podFilesystems{
			at: at, layers: layers, node: out.Node.Fs, pod: pods[types.UID(out.Pods[i].PodRef.UID)],
		})
	}
	c.trees.forget(s.at)
}

// filesystem returns how full the filesystem of a path is, or nil.
func (c *Collector) filesystem(path string, at metav1.Time) *v1alpha1.FsStats {
	if path == "" {
		return nil
	}
	fs, err := c.options.Disk(path)
	if err != nil {
		c.log.Debug("a filesystem cannot be read", "path", path, "error", err)
		return nil
	}
	return &v1alpha1.FsStats{
		Time: at, AvailableBytes: &fs.Available, CapacityBytes: &fs.Capacity, UsedBytes: &fs.Used,
		InodesFree: &fs.InodesFree, Inodes: &fs.Inodes, InodesUsed: &fs.InodesUsed,
	}
}

// runtimeFilesystems fills in the runtime's filesystems and returns that of writable layers.
func (c *Collector) runtimeFilesystems(ctx context.Context, out *v1alpha1.Summary, at metav1.Time) *v1alpha1.FsStats {
	if c.options.Images == nil {
		return nil
	}
	images, containers, err := c.options.Images.ImageFilesystem(ctx)
	if err != nil {
		if ctx.Err() == nil {
			c.log.Warn("asking for the filesystem of images failed", "error", err)
		}
		return nil
	}
	of := func(use cri.FilesystemUsage) *v1alpha1.FsStats {
		fs := c.filesystem(use.Mountpoint, at)
		if fs != nil {
			fs.UsedBytes, fs.InodesUsed = &use.UsedBytes, &use.InodesUsed
		}
		return fs
	}
	if containers.Mountpoint == "" {
		containers = images
	}
	out.Node.Runtime = &v1alpha1.RuntimeStats{ImageFs: of(images), ContainerFs: of(containers)}
	return out.Node.Runtime.ContainerFs
}

// podFilesystems holds the filesystems of a pod's files.
type podFilesystems struct {
	at           metav1.Time
	layers, node *v1alpha1.FsStats
	pod          *corev1.Pod // nil if unknown
}

func (c *Collector) addPod(ctx context.Context, out *v1alpha1.PodStats, sample *podSample, on podFilesystems) {
	total := &v1alpha1.FsStats{Time: on.at}
	if on.node != nil {
		total.AvailableBytes, total.CapacityBytes = on.node.AvailableBytes, on.node.CapacityBytes
		total.InodesFree, total.Inodes = on.node.InodesFree, on.node.Inodes
	}
	m := sample.sandbox.Metadata
	for i := range out.Containers {
		container := &out.Containers[i]
		if layer := sample.containers[i].stats.WritableLayer; !layer.At.IsZero() {
			container.Rootfs = within(on.layers, metav1.NewTime(layer.At), layer.UsedBytes, layer.InodesUsed)
			total.UsedBytes = plus(total.UsedBytes, &layer.UsedBytes)
			total.InodesUsed = plus(total.InodesUsed, &layer.InodesUsed)
		}
		if c.options.LogDir == "" {
			continue
		}
		logs := filepath.Join(c.options.LogDir, m.Namespace+"_"+m.Name+"_"+m.UID, container.Name)
		if size, ok := c.trees.measure(ctx, logs, on.at.Time); ok {
			container.Logs = within(on.node, on.at, size.bytes, size.inodes)
			total.UsedBytes = plus(total.UsedBytes, &size.bytes)
			total.InodesUsed = plus(total.InodesUsed, &size.inodes)
		}
	}
	if on.pod != nil {
		c.addVolumes(ctx, out, total, on)
	}
	if total.UsedBytes != nil {
		out.EphemeralStorage = total
	}
}

func (c *Collector) addVolumes(ctx context.Context, out *v1alpha1.PodStats, total *v1alpha1.FsStats, on podFilesystems) {
	for i := range on.pod.Spec.Volumes {
		volume := &on.pod.Spec.Volumes[i]
		dir := c.options.Volume(on.pod, volume)
		size, ok := c.trees.measure(ctx, dir, on.at.Time)
		if !ok { // without a directory there is nothing to measure
			continue
		}
		stats := v1alpha1.VolumeStats{Name: volume.Name, FsStats: *within(c.filesystem(dir, on.at), on.at, size.bytes, size.inodes)}
		if claim := volume.PersistentVolumeClaim; claim != nil {
			stats.PVCRef = &v1alpha1.PVCReference{Name: claim.ClaimName, Namespace: on.pod.Namespace}
		}
		out.VolumeStats = append(out.VolumeStats, stats)
		inMemory := volume.EmptyDir != nil && volume.EmptyDir.Medium != corev1.StorageMediumDefault
		if !inMemory && volume.PersistentVolumeClaim == nil {
			total.UsedBytes = plus(total.UsedBytes, &size.bytes)
			total.InodesUsed = plus(total.InodesUsed, &size.inodes)
		}
	}
}

// within returns the statistics of something that takes the given space on a filesystem; a nil filesystem is unknown.
func within(fs *v1alpha1.FsStats, at metav1.Time, bytes, inodes uint64) *v1alpha1.FsStats {
	out := v1alpha1.FsStats{}
	if fs != nil {
		out = *fs
	}
	out.Time, out.UsedBytes, out.InodesUsed = at, &bytes, &inodes
	return &out
}
