// Package disk changes the file system in steps that tests can make fail, to show what a process leaves behind if it is
// killed between any two of them.
//
// A Disk is safe for concurrent use if its Step is.
package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrCrosses means that a tree was not removed because something is mounted in it.
var ErrCrosses = errors.New("something is mounted there")

// Disk is the file system. The zero value is ready to use.
type Disk struct {
	// Step, if set, is called before every change; its error is returned instead of doing it.
	Step func(op, path string) error
}

func (d Disk) step(op, path string) error {
	if d.Step == nil {
		return nil
	}
	return d.Step(op, path)
}

// MkdirAll makes a directory and its missing parents, all with exactly the mode.
func (d Disk) MkdirAll(path string, mode fs.FileMode) error {
	if info, err := os.Stat(path); err == nil {
		if info.IsDir() {
			return nil
		}
		return fmt.Errorf("%s is not a directory", path)
	}
	if parent := filepath.Dir(path); parent != path {
		if err := d.MkdirAll(parent, mode); err != nil {
			return err
		}
	}
	if err := d.step("mkdir", path); err != nil {
		return err
	}
	if err := os.Mkdir(path, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return d.Chmod(path, mode)
}

// Chmod sets the mode of a file if it differs.
func (d Disk) Chmod(path string, mode fs.FileMode) error {
	const bits = fs.ModePerm | fs.ModeSetgid | fs.ModeSetuid | fs.ModeSticky
	if info, err := os.Stat(path); err == nil && info.Mode()&bits == mode&bits {
		return nil
	}
	if err := d.step("chmod", path); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}

// Lchown sets the owner and group of a file or link; -1 leaves one unchanged.
func (d Disk) Lchown(path string, uid, gid int) error {
	if err := d.step("chown", path); err != nil {
		return err
	}
	return os.Lchown(path, uid, gid)
}

// WriteFile writes a file in place with exactly the mode, whatever the process's umask. An existing file is overwritten
// before it is truncated: readers never find it empty, not even on a full disk.
func (d Disk) WriteFile(path string, data []byte, mode fs.FileMode) error {
	if err := d.step("write", path); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Truncate(int64(len(data)))
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return d.Chmod(path, mode)
}

// Symlink makes a symbolic link.
func (d Disk) Symlink(target, path string) error {
	if err := d.step("symlink", path); err != nil {
		return err
	}
	return os.Symlink(target, path)
}

// Rename renames a file, replacing any existing one.
func (d Disk) Rename(from, to string) error {
	if err := d.step("rename", to); err != nil {
		return err
	}
	return os.Rename(from, to)
}

// Remove removes a file or an empty directory, or does nothing if there is none.
func (d Disk) Remove(path string) error {
	if err := d.step("remove", path); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// MkdirTemp makes a directory with a new name.
func (d Disk) MkdirTemp(dir, pattern string, mode fs.FileMode) (string, error) {
	if err := d.step("mkdir", filepath.Join(dir, pattern)); err != nil {
		return "", err
	}
	path, err := os.MkdirTemp(dir, pattern)
	if err != nil {
		return "", err
	}
	if err := d.Chmod(path, mode); err != nil {
		return "", errors.Join(err, os.Remove(path)) // otherwise each retry leaves one behind
	}
	return path, nil
}
