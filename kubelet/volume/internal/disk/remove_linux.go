package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// maxDepth is how many nested directories are held open. Deeper ones are moved up first, so that a deep tree cannot
// exhaust this process's file descriptors.
const maxDepth = 64

// RemoveTree removes a file or directory with everything in it, or does nothing if there is none. It never follows a
// link and never crosses a mount: at a mount point it stops with ErrCrosses, and the mounted file system is not
// touched.
func (d Disk) RemoveTree(path string) error {
	parent, err := openDir(unix.AT_FDCWD, filepath.Dir(path), 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &fs.PathError{Op: "open", Path: filepath.Dir(path), Err: err}
	}
	defer func() { _ = parent.Close() }()
	r := remover{Disk: d}
	return r.remove(parent, filepath.Base(path), path)
}

// remover removes one tree.
type remover struct {
	Disk
	top   *os.File // the tree's root
	depth int
	moved int
}

// remove removes a file or tree by its name in a directory; path is only for messages.
func (r *remover) remove(parent *os.File, name, path string) error {
	err := r.unlink(parent, name, path, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	if !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) {
		return err
	}
	dir, openErr := openDir(int(parent.Fd()), name, unix.RESOLVE_NO_XDEV|unix.RESOLVE_BENEATH)
	switch {
	case errors.Is(openErr, unix.ENOENT):
		return nil
	case errors.Is(openErr, unix.EXDEV):
		return fmt.Errorf("removing %s: %w", path, ErrCrosses)
	case errors.Is(openErr, unix.ENOTDIR):
		return err
	case openErr != nil:
		return &fs.PathError{Op: "open", Path: path, Err: openErr}
	}
	defer func() { _ = dir.Close() }()
	if r.top == nil {
		r.top = dir
	}
	if r.depth >= maxDepth {
		return r.moveUp(parent, name, path)
	}
	r.depth++
	err = r.empty(dir, path)
	r.depth--
	if err != nil {
		return err
	}
	err = r.unlink(parent, name, path, unix.AT_REMOVEDIR)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// empty removes everything in a directory. It rereads from the beginning until it finds nothing, because something may
// have been moved here.
func (r *remover) empty(dir *os.File, path string) error {
	for {
		if _, err := dir.Seek(0, io.SeekStart); err != nil {
			return err
		}
		names, err := dir.Readdirnames(256)
		if len(names) == 0 {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		for _, n := range names {
			if err := r.remove(dir, n, filepath.Join(path, n)); err != nil {
				return err
			}
		}
	}
}

// moveUp moves a directory to the root of the tree, to be removed there.
func (r *remover) moveUp(parent *os.File, name, path string) error {
	if err := r.step("rename", path); err != nil {
		return err
	}
	for {
		r.moved++
		err := unix.Renameat2(int(parent.Fd()), name, int(r.top.Fd()), fmt.Sprintf("..deep-%d", r.moved), unix.RENAME_NOREPLACE)
		if errors.Is(err, unix.EEXIST) {
			continue
		}
		if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EXDEV) {
			return fmt.Errorf("removing %s: %w", path, ErrCrosses)
		}
		if err != nil {
			return &fs.PathError{Op: "rename", Path: path, Err: err}
		}
		return nil
	}
}

func (r *remover) unlink(parent *os.File, name, path string, flags int) error {
	if err := r.step("unlink", path); err != nil {
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

// openDir opens a directory that is not a link for reading.
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
