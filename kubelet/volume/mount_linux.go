package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// canMount reports whether the system supports the mounts that this package makes.
const canMount = true

// noWait makes opening a pipe not wait for its other end.
const noWait = unix.O_NONBLOCK

// unmountRounds is how often to look for mounts again: more than anybody stacks on one path.
const unmountRounds = 16

// isMountPoint reports whether something is mounted at the path.
func isMountPoint(path string) (bool, error) { return mountinfo.Mounted(path) }

// mount mounts a file system without a device, such as tmpfs.
func mount(kind, dir, options string) error {
	if kind == "tmpfs" { // not swapped out, if the kernel supports that
		with := strings.TrimPrefix(options+",noswap", ",")
		err := unix.Mount(kind, dir, kind, 0, with)
		if !errors.Is(err, unix.EINVAL) {
			return wrap("mount", dir, err)
		}
	}
	return wrap("mount", dir, unix.Mount(kind, dir, kind, 0, options))
}

func wrap(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}

// bindMount mounts an open file or directory at the target, which exists and is of the same type.
func bindMount(file *os.File, target string) error {
	source := fmt.Sprintf("/proc/self/fd/%d", file.Fd())
	return wrap("bind", target, unix.Mount(source, target, "", unix.MS_BIND, ""))
}

// readOnlyFlag makes a mount read-only.
const readOnlyFlag uintptr = unix.MS_RDONLY

// bindFlags returns the flags for the options of a bind mount, which can only change what the kernel keeps for each
// mount. Other options are errors.
func bindFlags(options []string) (uintptr, error) {
	known := map[string]uintptr{
		"bind": 0, "rw": 0, "ro": readOnlyFlag, "defaults": 0, "suid": 0, "nosuid": unix.MS_NOSUID, "dev": 0,
		"nodev": unix.MS_NODEV, "exec": 0, "noexec": unix.MS_NOEXEC, "noatime": unix.MS_NOATIME, "nodiratime": unix.MS_NODIRATIME,
		"relatime": unix.MS_RELATIME, "strictatime": unix.MS_STRICTATIME,
	}
	var flags uintptr
	for _, list := range options {
		for o := range strings.SplitSeq(list, ",") {
			flag, ok := known[o]
			if !ok {
				return 0, fmt.Errorf("mount option %q is not supported for local directories", o)
			}
			flags |= flag
		}
	}
	return flags, nil
}

// restrict adds flags to a bind mount. It keeps those that the mount has from its source; the kernel keeps only what they say
// about access times.
func restrict(dir string, flags uintptr) error {
	if flags == 0 {
		return nil
	}
	var has unix.Statfs_t
	if err := unix.Statfs(dir, &has); err != nil {
		return wrap("statfs", dir, err)
	}
	for from, flag := range map[int64]uintptr{
		unix.ST_RDONLY: unix.MS_RDONLY, unix.ST_NOSUID: unix.MS_NOSUID, unix.ST_NODEV: unix.MS_NODEV, unix.ST_NOEXEC: unix.MS_NOEXEC,
	} {
		if int64(has.Flags)&from != 0 { //nolint:unconvert // its type depends on the architecture
			flags |= flag
		}
	}
	return wrap("remount", dir, unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND|flags, ""))
}

// gidOf is the group of a file.
func gidOf(info fs.FileInfo) int64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int64(stat.Gid)
	}
	return -1
}

// unmountBelow unmounts everything below the directory.
func (v *Volumes) unmountBelow(dir string) error {
	at, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	for range unmountRounds {
		mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(at))
		if err != nil {
			return err
		}
		points := make([]string, 0, len(mounts))
		for _, m := range mounts {
			if m.Mountpoint == at {
				return fmt.Errorf("%s itself is a mount", at)
			}
			points = append(points, m.Mountpoint)
		}
		if len(points) == 0 {
			return nil
		}
		slices.Reverse(points) // the latest first, which may be inside an earlier one
		for _, p := range points {
			if isWithin(p, points) {
				continue
			}
			if err := v.unmount(p); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("still mounted after %d rounds", unmountRounds)
}

// isWithin reports whether a path is below another in the list.
func isWithin(path string, list []string) bool {
	return slices.ContainsFunc(list, func(o string) bool { return strings.HasPrefix(path, o+"/") })
}

// unmount removes the mount at the path, and all mounts below it, without affecting their copies elsewhere.
func (v *Volumes) unmount(path string) error {
	if v.disk.Step != nil {
		if err := v.disk.Step("unmount", path); err != nil {
			return err
		}
	}
	err := unix.Unmount(path, unix.UMOUNT_NOFOLLOW)
	switch {
	case err == nil || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT):
		return nil // or no longer mounted
	case !errors.Is(err, unix.EBUSY):
		return wrap("unmount", path, err)
	}
	below, err := mountinfo.GetMounts(mountinfo.PrefixFilter(path))
	if err != nil {
		return err
	}
	if len(below) <= 1 {
		v.log.Warn("a mount is in use by a process on the node, it goes when that ends", "path", path)
	}
	// A bind mount of a shared mount is its peer: without this, the mounts below would be unmounted there too, possibly
	// on the host.
	if err := unix.Mount("", path, "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return wrap("make private", path, err)
	}
	return wrap("unmount", path, unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW))
}
