package csi

import (
	"errors"
	"io/fs"

	"github.com/moby/sys/mountinfo"
)

// isMountPoint reports whether something is mounted at a path, which need not exist.
func isMountPoint(path string) (bool, error) {
	mounted, err := mountinfo.Mounted(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return mounted, err
}
