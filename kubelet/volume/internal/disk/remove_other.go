//go:build !linux

package disk

import "os"

// RemoveTree removes a file or directory with everything in it, without following links. It does not check for mounts,
// since nothing is ever mounted on this system.
func (d Disk) RemoveTree(path string) error {
	if err := d.step("unlink", path); err != nil {
		return err
	}
	return os.RemoveAll(path)
}
