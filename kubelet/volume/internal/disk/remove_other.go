//go:build !linux

package disk

import "os"

// RemoveTree removes a file or directory with all that is in it, without following links. Only
// Linux is asked whether something is mounted in it: nothing is mounted elsewhere.
func (d Disk) RemoveTree(path string) error {
	if err := d.step("unlink", path); err != nil {
		return err
	}
	return os.RemoveAll(path)
}
