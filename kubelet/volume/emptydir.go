package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/internal/boundedquantity"
	"github.com/keelson-dev/keelson/podspec/restart"
)

// dirMode is the mode of directories that only the node reads.
const dirMode fs.FileMode = 0o750

// setUpEmptyDir creates an emptyDir once; from then on it belongs to the containers.
func (v *Volumes) setUpEmptyDir(pod *corev1.Pod, vol *corev1.Volume) error {
	dir, meta := v.volumeDir(pod.UID, emptyDir, vol.Name), v.readyDir(pod.UID, vol.Name)
	ready := filepath.Join(meta, "ready")
	var medium corev1.StorageMedium
	if vol.EmptyDir != nil {
		medium = vol.EmptyDir.Medium
	}
	if exists(ready) {
		intact, err := v.isIntact(dir, medium)
		if intact || err != nil {
			return err
		}
		if err := v.disk.Remove(ready); err != nil {
			return err
		}
	}
	if err := v.makeDir(dir); err != nil {
		return err
	}
	if err := v.mountMedium(pod, vol, medium, dir); err != nil {
		return err
	}
	if err := v.own(dir, pod, false); err != nil {
		return err
	}
	if err := v.disk.MkdirAll(meta, dirMode); err != nil {
		return err
	}
	return v.disk.WriteFile(ready, nil, 0o640)
}

// isIntact reports whether an emptyDir that was ready still is: those in memory do not survive a reboot.
func (v *Volumes) isIntact(dir string, medium corev1.StorageMedium) (bool, error) {
	if medium == corev1.StorageMediumDefault || v.options.Rootless {
		return exists(dir), nil
	}
	mounted, err := isMountPoint(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return mounted, err
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// makeDir creates the directory of a volume, accessible to everybody who can see it.
func (v *Volumes) makeDir(dir string) error {
	if err := v.disk.MkdirAll(filepath.Dir(dir), dirMode); err != nil {
		return err
	}
	if err := v.disk.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() == 0o777 {
		return err
	}
	return v.disk.Chmod(dir, 0o777)
}

// mountMedium mounts the file system of an emptyDir's medium, unless it is already mounted.
func (v *Volumes) mountMedium(pod *corev1.Pod, vol *corev1.Volume, medium corev1.StorageMedium, dir string) error {
	switch {
	case medium == corev1.StorageMediumDefault:
		return nil
	case medium == corev1.StorageMediumMemory:
		return v.mountMemory(dir, v.memorySize(pod, vol.EmptyDir.SizeLimit))
	case strings.HasPrefix(string(medium), string(corev1.StorageMediumHugePages)):
		size, err := hugePageSize(pod, medium)
		if err != nil {
			return err
		}
		return v.mountOnce(dir, "hugetlbfs", "pagesize="+size.String())
	default:
		return fmt.Errorf("unknown storage medium %q", medium)
	}
}

// mountMemory mounts a file system in memory of at most size bytes; 0 is the system's default.
func (v *Volumes) mountMemory(dir string, size int64) error {
	options := ""
	if size > 0 {
		options = fmt.Sprintf("size=%d", size)
	}
	return v.mountOnce(dir, "tmpfs", options)
}

func (v *Volumes) mountOnce(dir, kind, options string) error {
	if v.options.Rootless {
		return nil
	}
	if mounted, err := isMountPoint(dir); mounted || err != nil {
		return err
	}
	if v.disk.Step != nil {
		if err := v.disk.Step("mount", dir); err != nil {
			return err
		}
	}
	return mount(kind, dir, options)
}

// memorySize is the size limit of a volume in memory: the volume's own, but at most the pod's memory limit and the
// node's memory. 0 is unknown.
func (v *Volumes) memorySize(pod *corev1.Pod, limit *resource.Quantity) int64 {
	var size int64
	if v.options.Allocatable != nil {
		allocatable := v.options.Allocatable()
		size = allocatable.Memory().Value()
	}
	smaller := func(n int64) {
		if n > 0 && (size == 0 || n <= size) {
			size = n
		}
	}
	smaller(podMemoryLimit(pod))
	if limit != nil {
		smaller(limit.Value())
	}
	return size
}

// podMemoryLimit is the memory limit of a pod in bytes, 0 if a container has none.
func podMemoryLimit(pod *corev1.Pod) int64 {
	overhead := pod.Spec.Overhead.Memory().Value()
	if r := pod.Spec.Resources; r != nil {
		if m := r.Limits.Memory(); !m.IsZero() {
			return m.Value() + overhead
		}
	}
	var running, sidecars, peak int64
	for _, c := range pod.Spec.InitContainers {
		m := c.Resources.Limits.Memory().Value()
		if m == 0 {
			return 0
		}
		if restart.Sidecar(&c) {
			sidecars += m
			m = 0
		}
		peak = max(peak, sidecars+m)
	}
	for _, c := range pod.Spec.Containers {
		m := c.Resources.Limits.Memory().Value()
		if m == 0 {
			return 0
		}
		running += m
	}
	return max(running+sidecars, peak) + overhead
}

// hugePageSize is the page size of a medium: the one in its name, or the only one that the pod requests.
func hugePageSize(pod *corev1.Pod, medium corev1.StorageMedium) (resource.Quantity, error) {
	var wanted, found resource.Quantity
	if suffix, ok := strings.CutPrefix(string(medium), string(corev1.StorageMediumHugePagesPrefix)); ok {
		q, err := boundedquantity.Parse(suffix)
		if err != nil {
			return q, fmt.Errorf("storage medium %q: %w", medium, err)
		}
		wanted = q
	}
	lists := []corev1.ResourceList{}
	if pod.Spec.Resources != nil {
		lists = append(lists, pod.Spec.Resources.Requests)
	}
	for _, c := range append(pod.Spec.Containers[:len(pod.Spec.Containers):len(pod.Spec.Containers)], pod.Spec.InitContainers...) {
		lists = append(lists, c.Resources.Requests)
	}
	for _, list := range lists {
		for name := range list {
			suffix, ok := strings.CutPrefix(string(name), corev1.ResourceHugePagesPrefix)
			if !ok {
				continue
			}
			q, err := boundedquantity.Parse(suffix)
			if err != nil {
				return q, fmt.Errorf("resource %q: %w", name, err)
			}
			switch {
			case !wanted.IsZero():
				if q.Cmp(wanted) == 0 {
					found = q
				}
			case !found.IsZero() && found.Cmp(q) != 0:
				return q, fmt.Errorf("medium: %s can't be used if container requests multiple huge page sizes", medium)
			default:
				found = q
			}
		}
	}
	if found.IsZero() {
		return found, fmt.Errorf("medium %s: hugePages storage requested, but there is no resource request for huge pages", medium)
	}
	return found, nil
}
