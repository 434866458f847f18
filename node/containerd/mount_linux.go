package containerd

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// mountRun makes dir a tmpfs of its own, shared with later namespaces. The network namespaces of sandboxes are pinned
// in it and can be unpinned whatever happens to the host's mounts; its content is gone after a reboot, as containerd
// expects; and nothing waits for a disk.
func mountRun(dir string) error {
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return fmt.Errorf("make containerd's directory of this boot: %w", err)
	}
	mounts, err := mountsBelow(dir)
	if err != nil || slices.Contains(mounts, dir) {
		return err
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NODEV|unix.MS_NOSUID, "mode=0711"); err != nil {
		return fmt.Errorf("mount containerd's directory of this boot: %w", err)
	}
	if err := unix.Mount("", dir, "", unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("share containerd's directory of this boot: %w", err)
	}
	return nil
}

// mountsBelow returns the mount points at and below the directories, in the order of mounting.
func mountsBelow(dirs ...string) ([]string, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	return parseMounts(b, dirs), nil
}

func parseMounts(b []byte, dirs []string) []string {
	var found []string
	lines := bufio.NewScanner(bytes.NewReader(b))
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 5 {
			continue
		}
		point := unescape(f[4])
		for _, dir := range dirs {
			if point == dir || strings.HasPrefix(point, dir+"/") {
				found = append(found, point)
				break
			}
		}
	}
	return found
}

// unescape undoes the kernel's escaping of blanks in paths.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// unmountBelow unmounts everything at and below the directories, the last first. Busy mounts are detached: the kernel
// ends them with their last user.
func unmountBelow(dirs ...string) error {
	mounts, err := mountsBelow(dirs...)
	if err != nil {
		return err
	}
	var failed []error
	for _, m := range slices.Backward(mounts) {
		err := unix.Unmount(m, unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EBUSY) {
			err = unix.Unmount(m, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
		}
		// EINVAL and ENOENT: it went with another mount.
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			failed = append(failed, fmt.Errorf("unmount %s: %w", m, err))
		}
	}
	return errors.Join(failed...)
}
