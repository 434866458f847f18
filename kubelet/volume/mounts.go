package volume

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet"
	"github.com/keelson-dev/keelson/kubelet/environment/expansion"
)

// Mounts implements kubelet.Volumes. The Image of an image volume is the reference in the pod; the caller pulls it and
// may replace the reference with that of the pulled image.
func (v *Volumes) Mounts(ctx context.Context, r kubelet.MountRequest) ([]cri.Mount, error) {
	for _, name := range []string{string(r.Pod.UID), r.Container.Name} {
		if err := checkName(name); err != nil {
			return nil, err
		}
	}
	_, unlock := v.lock(r.Pod.UID)
	defer unlock()
	var mounts []cri.Mount
	hosts := len(r.IPs) > 0 || r.Pod.Spec.HostNetwork
	for i := range r.Container.VolumeMounts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		m := &r.Container.VolumeMounts[i]
		hosts = hosts && m.MountPath != containerHostsFile
		mount, err := v.mountOf(r, i, m)
		if err != nil {
			return nil, err
		}
		mounts = append(mounts, mount)
	}
	if hosts {
		mount, err := v.hostsMount(r)
		if err != nil {
			return nil, err
		}
		mounts = append(mounts, mount)
	}
	mount, err := v.messageMount(r.Pod, r.Container)
	if err != nil {
		return nil, err
	}
	return append(mounts, mount), nil
}

// mountOf returns the mount for one of a container's volume mounts.
func (v *Volumes) mountOf(r kubelet.MountRequest, index int, m *corev1.VolumeMount) (cri.Mount, error) {
	at := slices.IndexFunc(r.Pod.Spec.Volumes, func(vol corev1.Volume) bool { return vol.Name == m.Name })
	if at < 0 {
		return cri.Mount{}, fmt.Errorf("cannot find volume %q to mount into container %q", m.Name, r.Container.Name)
	}
	vol := &r.Pod.Spec.Volumes[at]
	k, root := v.place(r.Pod.UID, vol)
	if k == unsupported || checkName(m.Name) != nil {
		return cri.Mount{}, fmt.Errorf("cannot find volume %q to mount into container %q", m.Name, r.Container.Name)
	}
	subPath, err := subPathOf(m, r.Env)
	if err != nil {
		return cri.Mount{}, err
	}
	out := cri.Mount{
		ContainerPath:  absolute(m.MountPath),
		ReadOnly:       m.ReadOnly || k.isReadOnly() || v.isReadOnly(r.Pod.UID, vol),
		SELinuxRelabel: v.options.SELinux && k != hostPath && k != nfs,
	}
	if out.Propagation, err = propagation(m.MountPropagation); err != nil {
		return cri.Mount{}, err
	}
	recursive := v.options.RecursiveReadOnly != nil && v.options.RecursiveReadOnly(r.Pod)
	if out.RecursiveReadOnly, err = recursiveReadOnly(m, recursive); err != nil {
		return cri.Mount{}, fmt.Errorf("failed to resolve recursive read-only mode: %w", err)
	}
	if k == image {
		out.Image = &cri.ImageSpec{Image: vol.Image.Reference, UserSpecified: vol.Image.Reference}
		out.ImageSubPath = subPath
		return out, nil
	}
	out.HostPath = root
	if subPath != "" {
		out.HostPath, err = v.holdSubPath(r, index, out.HostPath, subPath)
	}
	return out, err
}

// absolute makes the path of a mount in a container absolute.
func absolute(p string) string {
	if path.IsAbs(p) {
		return p
	}
	return path.Join("/", p)
}

// subPathOf is the path in the volume that is mounted; empty is all of it.
func subPathOf(m *corev1.VolumeMount, env []cri.EnvVar) (string, error) {
	p := m.SubPath
	if m.SubPathExpr != "" {
		var err error
		if p, err = expandStrictly(m.SubPathExpr, env); err != nil {
			return "", err
		}
	}
	if path.IsAbs(p) {
		return "", fmt.Errorf("error SubPath `%s` must not be an absolute path", p)
	}
	if slices.Contains(strings.Split(p, "/"), "..") {
		return "", fmt.Errorf("unable to provision SubPath `%s`: must not contain '..'", p)
	}
	if strings.ContainsRune(p, 0) {
		return "", fmt.Errorf("unable to provision SubPath %q: must not contain a zero byte", p)
	}
	if path.Clean(p) == "." {
		return "", nil
	}
	return p, nil
}

// expandStrictly expands variables, all of which must have values.
func expandStrictly(expression string, env []cri.EnvVar) (string, error) {
	values := make(map[string]string, len(env))
	for _, e := range env {
		values[e.Name] = e.Value
	}
	missing := map[string]bool{}
	out := expansion.Text(expression, func(name string) (string, bool) {
		if values[name] == "" {
			missing[name] = true
		}
		return values[name], true
	})
	if len(missing) > 0 {
		return "", fmt.Errorf("missing value for %s", strings.Join(slices.Sorted(maps.Keys(missing)), ", "))
	}
	return out, nil
}

func propagation(mode *corev1.MountPropagationMode) (cri.MountPropagation, error) {
	switch {
	case mode == nil || *mode == corev1.MountPropagationNone:
		return cri.PropagationPrivate, nil
	case *mode == corev1.MountPropagationHostToContainer:
		return cri.PropagationHostToContainer, nil
	case *mode == corev1.MountPropagationBidirectional:
		return cri.PropagationBidirectional, nil
	default:
		return 0, fmt.Errorf("invalid MountPropagation mode: %q", *mode)
	}
}

// recursiveReadOnly decides whether a mount is recursively read-only, given whether the runtime supports that.
func recursiveReadOnly(m *corev1.VolumeMount, possible bool) (bool, error) {
	if m.RecursiveReadOnly == nil || *m.RecursiveReadOnly == corev1.RecursiveReadOnlyDisabled {
		return false, nil
	}
	if !m.ReadOnly {
		return false, fmt.Errorf("volume %q requested recursive read-only mode, but it is not read-only", m.Name)
	}
	if m.MountPropagation != nil && *m.MountPropagation != corev1.MountPropagationNone {
		return false, fmt.Errorf("volume %q requested recursive read-only mode, but it is not compatible with propagation %q",
			m.Name, *m.MountPropagation)
	}
	switch *m.RecursiveReadOnly {
	case corev1.RecursiveReadOnlyIfPossible:
		return possible, nil
	case corev1.RecursiveReadOnlyEnabled:
		if !possible {
			return false, fmt.Errorf("volume %q requested recursive read-only mode, but it is not supported by the runtime", m.Name)
		}
		return true, nil
	default:
		return false, fmt.Errorf("unknown recursive read-only mode %q", *m.RecursiveReadOnly)
	}
}

// holdSubPath returns a path on the host that is pinned to the sub-path of the volume at root. A missing sub-path is
// created as a directory. Errors contain no details, which could reveal something about the host.
func (v *Volumes) holdSubPath(r kubelet.MountRequest, index int, root, subPath string) (string, error) {
	name := r.Container.VolumeMounts[index].Name
	file, err := v.openSubPath(root, subPath)
	if err != nil {
		v.log.Error("sub-path of a volume", "pod", r.Pod.Namespace+"/"+r.Pod.Name, "volume", name, "error", err)
		what := "prepare subPath"
		if errors.Is(err, errMaking) {
			what = "create subPath directory"
		}
		return "", fmt.Errorf("failed to %s for volumeMount %q of container %q", what, name, r.Container.Name)
	}
	defer func() { _ = file.Close() }()
	if v.options.Rootless {
		return filepath.Join(root, filepath.FromSlash(subPath)), nil
	}
	target := v.subPathTarget(r.Pod.UID, name, r.Container.Name, index)
	if err := v.bind(file, target); err != nil {
		v.log.Error("sub-path of a volume", "pod", r.Pod.Namespace+"/"+r.Pod.Name, "volume", name, "error", err)
		return "", fmt.Errorf("failed to prepare subPath for volumeMount %q of container %q", name, r.Container.Name)
	}
	return target, nil
}

// errMaking means that a missing sub-path could not be created.
var errMaking = errors.New("making the directory failed")

// bind mounts the open file or directory at the target, unless it is already mounted there.
func (v *Volumes) bind(file *os.File, target string) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if there, err := os.Lstat(target); err == nil {
		mounted, err := isMountPoint(target)
		if err != nil {
			return err
		}
		if mounted && os.SameFile(info, there) {
			return nil
		}
		if mounted {
			if err := v.unmount(target); err != nil {
				return err
			}
		}
		if there, err := os.Lstat(target); err == nil && there.IsDir() != info.IsDir() {
			if err := v.disk.Remove(target); err != nil {
				return err
			}
		}
	}
	if err := v.disk.MkdirAll(filepath.Dir(target), dirMode); err != nil {
		return err
	}
	if info.IsDir() {
		err = v.disk.MkdirAll(target, dirMode)
	} else if !exists(target) {
		err = v.disk.WriteFile(target, nil, 0o640)
	}
	if err != nil {
		return err
	}
	if v.disk.Step != nil {
		if err := v.disk.Step("bind", target); err != nil {
			return err
		}
	}
	return bindMount(file, target)
}
