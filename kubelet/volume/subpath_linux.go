package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// resolveTries is how often to resolve a path again that is being renamed concurrently.
const resolveTries = 64

// openSubPath opens a path in a volume, creating a directory with the volume's mode if it does not exist. Links are
// followed, but not out of the volume; the returned file stays in the volume whatever happens to the path later.
func (v *Volumes) openSubPath(root, subPath string) (*os.File, error) {
	base, err := os.OpenFile(root, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = base.Close() }()
	file, err := openBeneath(base, subPath, unix.O_PATH)
	if !errors.Is(err, fs.ErrNotExist) {
		return file, err
	}
	if err := v.makeSubPath(base, subPath); err != nil {
		return nil, fmt.Errorf("%w: %w", errMaking, err)
	}
	return openBeneath(base, subPath, unix.O_PATH)
}

// openBeneath opens a path relative to a directory without ever leaving the directory.
func openBeneath(base *os.File, name string, flags uint64) (*os.File, error) {
	return openAt(base, name, unix.OpenHow{Flags: flags, Resolve: unix.RESOLVE_BENEATH})
}

func openAt(base *os.File, name string, how unix.OpenHow) (*os.File, error) {
	how.Flags |= unix.O_CLOEXEC
	how.Resolve |= unix.RESOLVE_NO_MAGICLINKS
	var err error
	for range resolveTries {
		var fd int
		fd, err = unix.Openat2(int(base.Fd()), name, &how)
		if err == nil {
			return os.NewFile(uintptr(fd), filepath.Join(base.Name(), name)), nil
		}
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			break
		}
	}
	return nil, wrap("open", filepath.Join(base.Name(), name), err)
}

// makeSubPath creates the missing directories of a path, with the mode of the base.
func (v *Volumes) makeSubPath(base *os.File, subPath string) error {
	info, err := base.Stat()
	if err != nil {
		return err
	}
	mode := info.Mode() & (fs.ModePerm | fs.ModeSetgid | fs.ModeSticky | fs.ModeSetuid)
	parts := strings.Split(path.Clean(subPath), "/")
	at, err := openBeneath(base, ".", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	for i := range parts {
		// Open from the base each time: a link on the way may be relative to any level above it.
		next, err := openBeneath(base, path.Join(parts[:i+1]...), unix.O_PATH|unix.O_DIRECTORY)
		if errors.Is(err, fs.ErrNotExist) {
			next, err = v.makeIn(at, parts[i], mode)
		}
		_ = at.Close()
		if err != nil {
			return err
		}
		at = next
	}
	_ = at.Close()
	return nil
}

// makeIn creates a directory in another and opens it.
func (v *Volumes) makeIn(dir *os.File, name string, mode fs.FileMode) (*os.File, error) {
	at := filepath.Join(dir.Name(), name)
	if v.disk.Step != nil {
		if err := v.disk.Step("mkdir", at); err != nil {
			return nil, err
		}
	}
	if err := unix.Mkdirat(int(dir.Fd()), name, uint32(mode.Perm())); err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, wrap("mkdir", at, err)
	}
	made, err := openBeneath(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	if err := made.Chmod(mode); err != nil {
		_ = made.Close()
		return nil, err
	}
	return made, nil
}

// openInRoot opens a regular file in a volume for reading. Links are resolved as if the volume were the whole file
// system, so the file is always in it. Other types of files are not opened: that could block, and opening a device can
// have side effects.
func openInRoot(root, name string) (*os.File, error) {
	base, err := os.OpenFile(root, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = base.Close() }()
	at, err := openAt(base, name, unix.OpenHow{Flags: unix.O_PATH, Resolve: unix.RESOLVE_IN_ROOT})
	if err != nil {
		return nil, err
	}
	defer func() { _ = at.Close() }()
	info, err := at.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	return os.Open(fmt.Sprintf("/proc/self/fd/%d", at.Fd()))
}
