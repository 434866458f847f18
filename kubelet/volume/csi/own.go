package csi

import (
	"io/fs"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
)

// own gives a volume and everything in it to the pod's group. Files created in it later belong to the group, too.
func own(dir string, pod *corev1.Pod) error {
	gid := int(*group(pod))
	if p := pod.Spec.SecurityContext.FSGroupChangePolicy; p != nil && *p == corev1.FSGroupChangeOnRootMismatch {
		info, err := os.Stat(dir)
		const bits = 0o770
		if err == nil && groupOf(info) == gid && info.Mode().Perm()&bits == bits && info.Mode()&fs.ModeSetgid != 0 {
			return nil
		}
	}
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info() // before the group is changed, which clears bits
		if err != nil {
			return err
		}
		if err := os.Lchown(path, -1, gid); err != nil {
			return err
		}
		if d.Type()&fs.ModeSymlink != 0 {
			return nil
		}
		mode := info.Mode() | 0o660
		if d.IsDir() {
			mode |= fs.ModeSetgid | 0o110
		}
		return os.Chmod(path, mode)
	})
}
