package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// LockName is the file that Lock locks.
const LockName = "LOCK"

// ErrLocked: another process, or another part of this one, holds the lock.
var ErrLocked = errors.New("locked by another user")

const (
	// patience is how long opening a file waits for a free descriptor.
	patience = time.Minute
	pause    = 20 * time.Millisecond
)

// OS is a directory of the operating system. Files are readable by their owner only. When the process or the system has
// no free file descriptor, opening a file waits for up to a minute: clients that hold too many connections must not
// look like a failing disk.
type OS struct{ path string }

var _ Dir = OS{}

// At returns the directory at a path, which need not exist yet: Lock makes it.
func At(path string) OS { return OS{path: path} }

// Lock makes the directory if need be and locks it until the returned Closer is closed or the process ends. It fails
// with ErrLocked when the directory is locked already.
func (d OS) Lock() (io.Closer, error) {
	if err := makeDir(filepath.Clean(d.path)); err != nil {
		return nil, err
	}
	file, err := open(d.file(LockName), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	if err := lock(file); err != nil {
		_ = file.Close() // the first error counts
		return nil, fmt.Errorf("lock %s: %w", file.Name(), err)
	}
	return file, nil
}

// makeDir makes a directory and its parents, so that they survive a crash.
func makeDir(path string) error {
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		return fmt.Errorf("%s is not a directory", path)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(path)
	if err := makeDir(parent); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return At(parent).Sync()
}

func (d OS) file(name string) string { return filepath.Join(d.path, name) }

// Names implements Reader.
func (d OS) Names() ([]string, error) {
	dir, err := open(d.path, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	names, err := dir.Readdirnames(-1)
	slices.Sort(names)
	return names, errors.Join(err, dir.Close())
}

type osSource struct {
	*os.File
	size int64
}

func (s osSource) Size() int64 { return s.size }

// Open implements Reader.
func (d OS) Open(name string) (Source, error) {
	file, err := open(d.file(name), os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		_ = file.Close() // the first error counts
		return nil, err
	}
	return osSource{file, info.Size()}, nil
}

// Create implements Writer.
func (d OS) Create(name string) (File, error) {
	return d.write(name, os.O_CREATE|os.O_EXCL)
}

// Append implements Writer.
func (d OS) Append(name string) (File, error) { return d.write(name, 0) }

func (d OS) write(name string, flags int) (File, error) {
	file, err := open(d.file(name), os.O_WRONLY|os.O_APPEND|flags)
	if err != nil {
		return nil, err
	}
	return file, nil
}

// open opens a file as soon as a descriptor is free.
func open(path string, flags int) (*os.File, error) {
	for end := time.Now().Add(patience); ; time.Sleep(pause) {
		file, err := os.OpenFile(path, flags, 0o600)
		if !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE) || time.Now().After(end) {
			return file, err
		}
	}
}

// Rename implements Namer.
func (d OS) Rename(from, to string) error { return os.Rename(d.file(from), d.file(to)) }

// Remove implements Namer.
func (d OS) Remove(name string) error { return os.Remove(d.file(name)) }

// Sync implements Namer.
func (d OS) Sync() error {
	dir, err := open(d.path, os.O_RDONLY)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
