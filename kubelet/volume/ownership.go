package volume

import (
	"io/fs"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
)

func fsGroup(pod *corev1.Pod) *int64 {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	return pod.Spec.SecurityContext.FSGroup
}

// fsUser is the user that all containers of the pod run as, or nil if they differ or it is unknown.
func fsUser(pod *corev1.Pod) *int64 {
	var user *int64
	for c := range containers(pod) {
		var own *int64
		if sc := pod.Spec.SecurityContext; sc != nil {
			own = sc.RunAsUser
		}
		if c.SecurityContext != nil && c.SecurityContext.RunAsUser != nil {
			own = c.SecurityContext.RunAsUser
		}
		if own == nil || user != nil && *user != *own {
			return nil
		}
		user = own
	}
	return user
}

// own changes the group of a volume and everything in it to the pod's, if it has one. Files created in it later belong
// to the group too.
func (v *Volumes) own(dir string, pod *corev1.Pod, readOnly bool) error {
	group := fsGroup(pod)
	if group == nil || v.options.Rootless {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info() // before the group is changed, which clears bits
		if err != nil {
			return err
		}
		if err := v.disk.Lchown(path, -1, int(*group)); err != nil {
			return err
		}
		if d.Type()&fs.ModeSymlink != 0 {
			return nil
		}
		mode := info.Mode() | 0o660
		if readOnly {
			mode = info.Mode() | 0o440
		}
		if d.IsDir() {
			mode |= fs.ModeSetgid | 0o110
		}
		return v.disk.Chmod(path, mode)
	})
}

// groupDiffers reports whether the group of a persistent volume must be changed for the pod: not if the pod's policy is
// to look at the volume's root only, and that is as it must be.
func (v *Volumes) groupDiffers(dir string, pod *corev1.Pod) bool {
	group := fsGroup(pod)
	if group == nil {
		return false
	}
	if p := pod.Spec.SecurityContext.FSGroupChangePolicy; p == nil || *p != corev1.FSGroupChangeOnRootMismatch {
		return true
	}
	info, err := os.Stat(dir)
	const bits = 0o770
	return err != nil || gidOf(info) != *group || info.Mode().Perm()&bits != bits || info.Mode()&fs.ModeSetgid == 0
}
