package machine

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Disk returns how full the filesystem of a path is.
func Disk(path string) (Filesystem, error) {
	var fs unix.Statfs_t
	var file unix.Stat_t
	if err := unix.Statfs(path, &fs); err != nil {
		return Filesystem{}, fmt.Errorf("%w: filesystem of %s: %w", ErrUnreadable, path, err)
	}
	if err := unix.Stat(path, &file); err != nil {
		return Filesystem{}, fmt.Errorf("%w: filesystem of %s: %w", ErrUnreadable, path, err)
	}
	block := uint64(fs.Bsize)
	out := Filesystem{
		Capacity: fs.Blocks * block, Available: fs.Bavail * block, Used: sub(fs.Blocks, fs.Bfree) * block,
		Inodes: fs.Files, InodesFree: fs.Ffree, ID: file.Dev,
	}
	out.InodesUsed = sub(out.Inodes, out.InodesFree)
	return out, nil
}
