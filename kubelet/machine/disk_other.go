//go:build !linux

// What statfs returns differs between systems; nodes run on Linux.

package machine

// Disk tells how full the filesystem of a path is; here that cannot be found out.
func Disk(string) (Filesystem, error) { return Filesystem{}, ErrUnreadable }
