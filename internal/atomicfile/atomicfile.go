// Package atomicfile replaces files atomically: readers see either the old or the new content, even after a crash or a
// power failure.
package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Write replaces the file at path by one with the data and the mode, whatever the umask. If it returns nil, the file is
// durable; otherwise the old one is unchanged. A crash may leave a file beside it whose name begins with a dot and ends
// with ".tmp", which Sweep removes. A link at path is replaced, not followed.
func Write(path string, data []byte, mode fs.FileMode) error {
	return Fill(path, mode, func(file *os.File) error {
		_, err := file.Write(data)
		return err
	})
}

// Fill is Write with the content that fill writes to the file.
func Fill(path string, mode fs.FileMode, fill func(file *os.File) error) (err error) {
	dir := filepath.Dir(path)
	file, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*.tmp") // readable only by its owner
	if err != nil {
		return err
	}
	err = fill(file)
	if err == nil {
		err = file.Chmod(mode)
	}
	if err == nil {
		err = file.Sync()
	}
	err = errors.Join(err, file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return SyncDir(dir)
}

// Sweep removes what interrupted writes have left in a directory. Nothing else may be writing to it at the time.
func Sweep(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, ".*.tmp"))
	for _, path := range left {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// SyncDir makes changes to the names in a directory durable.
func SyncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
