package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// setUpHostPath checks that the path on the host is of the volume's type, and creates it if the type requires that.
func (v *Volumes) setUpHostPath(source *corev1.HostPathVolumeSource) error {
	if slices.Contains(strings.Split(source.Path, "/"), "..") {
		return fmt.Errorf("invalid HostPath `%s`: must not contain '..'", source.Path)
	}
	if source.Type == nil || *source.Type == corev1.HostPathUnset {
		return nil
	}
	info, err := os.Stat(source.Path)
	missing := errors.Is(err, fs.ErrNotExist)
	is := func(t fs.FileMode) bool { return err == nil && info.Mode().Type() == t }
	wrong := func(what string) error {
		return fmt.Errorf("hostPath type check failed: %s is not a %s", source.Path, what)
	}
	switch t := *source.Type; {
	case t == corev1.HostPathDirectoryOrCreate && missing:
		return v.disk.MkdirAll(source.Path, 0o755)
	case t == corev1.HostPathFileOrCreate && missing:
		return v.disk.WriteFile(source.Path, nil, 0o644)
	case t == corev1.HostPathDirectoryOrCreate || t == corev1.HostPathDirectory:
		if !is(fs.ModeDir) {
			return wrong("directory")
		}
	case t == corev1.HostPathFileOrCreate || t == corev1.HostPathFile:
		if !is(0) {
			return wrong("file")
		}
	case t == corev1.HostPathSocket:
		if !is(fs.ModeSocket) {
			return wrong("socket file")
		}
	case t == corev1.HostPathCharDev:
		if !is(fs.ModeDevice | fs.ModeCharDevice) {
			return wrong("character device")
		}
	case t == corev1.HostPathBlockDev:
		if !is(fs.ModeDevice) {
			return wrong("block device")
		}
	default:
		return fmt.Errorf("%s is an invalid volume type", t)
	}
	return nil
}
