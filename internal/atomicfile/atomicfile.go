// Package atomicfile replaces files as a whole: whoever reads one sees what it was or what it is to be, also after a
// crash or a loss of power.
package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Write makes data the content of the file at path, with the mode, whatever the umask. When it returns without an error
// the file is durable; with one, what was there before is. A crash may leave a file beside it whose name begins with a
// dot and ends with ".tmp", which Sweep removes. A link at path is replaced, not followed.
func Write(path string, data []byte, mode fs.FileMode) error {
	return Fill(path, mode, func(file *os.File) error {
		_, err := file.Write(data)
		return err
	})
}

// Fill is Write of what fill writes into a file.
func Fill(path string, mode fs.FileMode, fill func(file *os.File) error) (err error) {
	dir := filepath.Dir(path)
	file, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*.tmp") // nobody else may read it yet
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

// Sweep removes what writes that were interrupted left in a directory that nobody else writes to at the time.
func Sweep(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, ".*.tmp"))
	for _, path := range left {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// SyncDir makes durable which names a directory has.
func SyncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
