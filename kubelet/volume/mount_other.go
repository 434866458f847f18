//go:build !linux

package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// On other systems nothing is mounted: volumes are plain directories, so that tests can use the package.
const (
	canMount = false
	noWait   = 0
	// readOnlyFlag makes a mount read-only.
	readOnlyFlag uintptr = 0
)

var errNoMounts = errors.New("mounting needs Linux")

func isMountPoint(string) (bool, error)      { return false, nil }
func mount(_, _, _ string) error             { return errNoMounts }
func bindMount(*os.File, string) error       { return errNoMounts }
func (v *Volumes) unmountBelow(string) error { return nil }
func (v *Volumes) unmount(string) error      { return nil }

func bindFlags([]string) (uintptr, error) { return 0, nil }
func restrict(string, uintptr) error      { return nil }
func gidOf(fs.FileInfo) int64             { return -1 }

// openSubPath opens a path in a volume, creating a directory if it does not exist.
func (v *Volumes) openSubPath(root, subPath string) (*os.File, error) {
	base, err := os.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	defer func() { _ = base.Close() }()
	f, err := base.Open(filepath.FromSlash(subPath))
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	if err := base.MkdirAll(filepath.FromSlash(subPath), 0o777); err != nil {
		return nil, errors.Join(errMaking, err)
	}
	return base.Open(filepath.FromSlash(subPath))
}

// openInRoot opens a regular file in a volume for reading.
func openInRoot(root, name string) (*os.File, error) {
	base, err := os.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	defer func() { _ = base.Close() }()
	info, err := base.Stat(filepath.FromSlash(name))
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", name)
	}
	if err != nil {
		return nil, err
	}
	return base.Open(filepath.FromSlash(name))
}
