package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/kubelet/volume/claims"
)

// localPlugin mounts directories of the node that are persistent volumes.
type localPlugin struct{ *Volumes }

// SetUp implements Plugin.
func (l localPlugin) SetUp(_ context.Context, m claims.Mount, dir string) (string, error) {
	path := m.Persistent.Spec.Local.Path
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", &SetUpError{Operation: "MountVolume.NewMounter initialization failed", Err: fmt.Errorf("path %q does not exist", path)}
	case err != nil:
		return "", &SetUpError{Operation: "MountVolume.NewMounter initialization failed", Err: err}
	case m.Block():
		return "", &SetUpError{Operation: "MapVolume.MapPodDevice failed", Err: fmt.Errorf("local volumes as devices are %w", ErrUnsupported)}
	case info.Mode().Type() == fs.ModeDevice:
		return "", &SetUpError{Operation: "MountVolume.MountDevice failed", Err: fmt.Errorf("file systems on local block devices are %w: mount %s and make a volume of its directory", ErrUnsupported, path)}
	case !info.IsDir():
		return "", &SetUpError{Operation: "MountVolume.NewMounter initialization failed", Err: errors.New("only directory and block device are supported")}
	}
	if slices.Contains(strings.Split(path, "/"), "..") {
		return "", fmt.Errorf("invalid path: %s must not contain '..'", path)
	}
	if l.options.Rootless {
		return path, nil
	}
	return dir, l.mountAt(m, path, dir)
}

// mountAt mounts the directory for the pod, unless it is mounted there already.
func (l localPlugin) mountAt(m claims.Mount, path, dir string) error {
	source, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	flags, err := bindFlags(m.Options())
	if err != nil {
		return err
	}
	if m.ReadOnly {
		flags |= readOnlyFlag
	}
	if l.isMountOf(dir, source) {
		return restrict(dir, flags) // an earlier process may have ended before it did
	}
	// The group is changed before the mount exists, which is what tells a later process that it need not. Pods that
	// share the volume keep the group that it has.
	if !m.ReadOnly && len(l.others(m)) == 0 && l.groupDiffers(path, m.Pod) {
		if err := l.own(path, m.Pod, false); err != nil {
			return err
		}
	}
	if err := l.bind(source, dir); err != nil {
		return err
	}
	if err := restrict(dir, flags); err != nil {
		return errors.Join(err, l.unmount(dir))
	}
	return nil
}

// isMountOf reports whether the open directory is mounted at dir.
func (l localPlugin) isMountOf(dir string, source *os.File) bool {
	at, err := os.Lstat(dir)
	if err != nil {
		return false
	}
	info, err := source.Stat()
	if err != nil || !os.SameFile(at, info) {
		return false
	}
	mounted, err := isMountPoint(dir)
	return err == nil && mounted
}

// TearDown implements Plugin.
func (l localPlugin) TearDown(_ context.Context, _ types.UID, dir string) error {
	return l.takeDown(dir)
}
