package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// RemoveTree removes a file or directory with all that is in it, or does nothing when there is
// none. It never follows a link and never goes beyond a mount: where something is mounted it stops
// with ErrCrosses, and what is mounted there keeps all that it has.
func (d Disk) RemoveTree(path string) error {
	parent, err := openDir(unix.AT_FDCWD, filepath.Dir(path), 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &fs.PathError{Op: "open", Path: filepath.Dir(path), Err: err}
	}
	defer func() { _ = parent.Close() }()
	return d.removeAt(parent, filepath.Base(path), path)
}

func (d Disk) removeAt(parent *os.File, name, path string) error {
	err := d.unlink(parent, name, path, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	if !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) {
		return err
	}
	dir, err := openDir(int(parent.Fd()), name, unix.RESOLVE_NO_XDEV|unix.RESOLVE_BENEATH)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, unix.EXDEV):
		return fmt.Errorf("removing %s: %w", path, ErrCrosses)
	case err != nil:
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer func() { _ = dir.Close() }()
	for {
		names, err := dir.Readdirnames(256)
		for _, n := range names {
			if err := d.removeAt(dir, n, filepath.Join(path, n)); err != nil {
				return err
			}
		}
		if len(names) == 0 {
			if err := d.unlink(parent, name, path, unix.AT_REMOVEDIR); !errors.Is(err, unix.ENOTEMPTY) {
				return err
			}
			if _, err := dir.Seek(0, 0); err != nil {
				return err
			}
			if rest, _ := dir.Readdirnames(1); len(rest) == 0 {
				return &fs.PathError{Op: "remove", Path: path, Err: unix.ENOTEMPTY}
			}
			if _, err := dir.Seek(0, 0); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
	}
}

func (d Disk) unlink(parent *os.File, name, path string, flags int) error {
	if err := d.step("unlink", path); err != nil {
		return err
	}
	err := unix.Unlinkat(int(parent.Fd()), name, flags)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("removing %s: %w", path, ErrCrosses)
	default:
		return &fs.PathError{Op: "remove", Path: path, Err: err}
	}
}

// openDir opens a directory, which is not a link, for reading.
func openDir(at int, path string, resolve uint64) (*os.File, error) {
	const flags = unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_RDONLY
	for {
		fd, err := unix.Openat2(at, path, &unix.OpenHow{Flags: flags, Resolve: resolve})
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return os.NewFile(uintptr(fd), path), nil
	}
}
