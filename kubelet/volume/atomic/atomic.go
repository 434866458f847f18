package atomic

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/keelson-dev/keelson/kubelet/volume/internal/disk"
)

// ErrPath means that a file's path is empty, absolute or too long, or contains .. or begins with it.
var ErrPath = errors.New("invalid path")

// File is the content of a file, its mode, and its owner if that is not the writer.
type File struct {
	Data  []byte // the content
	Mode  fs.FileMode
	Owner *int64 // a user ID; nil is the writer
}

// Options configures Write. The zero value is ready to use.
type Options struct {
	// Prepare, if set, is called when the new files exist but are not yet visible to readers, for example to set their
	// group. Its argument is the directory that holds them.
	Prepare func(dir string) error
	// Step, if set, is called before every change to the file system; its error stops the write there, like a crash of
	// the process. It is for tests.
	Step func(op, path string) error
}

const (
	dataLink  = "..data"
	nextLink  = "..data_tmp"
	maxName   = 255
	maxPath   = 4096
	timestamp = "..2006_01_02_15_04_05."
)

// Write makes an existing directory hold exactly the files, given by their paths relative to it, and removes those of
// earlier writes. It reports whether any content changed; changes of modes or owners alone are ignored.
func Write(dir string, files map[string]File, o Options) (changed bool, err error) {
	w := writer{dir: dir, disk: disk.Disk{Step: o.Step}, files: make(map[string]File, len(files)), top: map[string]*int64{}}
	for p, f := range files {
		if err := CheckPath(p); err != nil {
			return false, err
		}
		p = path.Clean(p)
		w.files[p] = f
		first, _, _ := strings.Cut(p, "/")
		w.top[first] = f.Owner
	}
	current, err := os.Readlink(filepath.Join(dir, dataLink))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	same := false
	if current != "" {
		if same, err = w.same(current); err != nil {
			return false, err
		}
	}
	if !same {
		if current, err = w.replace(o.Prepare); err != nil {
			return false, err
		}
	}
	return !same, w.tidy(current)
}

// CheckPath fails with ErrPath for paths that Write would not accept.
func CheckPath(p string) error {
	switch {
	case p == "":
		return fmt.Errorf("%w: must not be empty: %q", ErrPath, p)
	case path.IsAbs(p):
		return fmt.Errorf("%w: must be relative path: %s", ErrPath, p)
	case len(p) > maxPath:
		return fmt.Errorf("%w: must be less than or equal to %d characters", ErrPath, maxPath)
	case strings.ContainsRune(p, 0):
		return fmt.Errorf("%w: must not contain a zero byte: %q", ErrPath, p)
	case path.Clean(p) == ".":
		return fmt.Errorf("%w: must name a file: %q", ErrPath, p)
	}
	for item := range strings.SplitSeq(p, "/") {
		if item == ".." {
			return fmt.Errorf("%w: must not contain '..': %s", ErrPath, p)
		}
		if len(item) > maxName {
			return fmt.Errorf("%w: filenames must be less than or equal to %d characters", ErrPath, maxName)
		}
	}
	if strings.HasPrefix(path.Clean(p), "..") {
		return fmt.Errorf("%w: must not start with '..': %s", ErrPath, p)
	}
	return nil
}

// writer is one call of Write.
type writer struct {
	dir   string
	disk  disk.Disk
	files map[string]File   // by clean path
	top   map[string]*int64 // first parts of the paths, and the owners of their links
}

// same reports whether the directory of that name holds exactly the files.
func (w *writer) same(name string) (bool, error) {
	root := filepath.Join(w.dir, name)
	left, other := len(w.files), errors.New("another file")
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		f, wanted := w.files[filepath.ToSlash(strings.TrimPrefix(p, root+string(filepath.Separator)))]
		if !wanted || !d.Type().IsRegular() {
			return other
		}
		left--
		data, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		if !bytes.Equal(data, f.Data) {
			return other
		}
		return nil
	})
	if errors.Is(err, other) || errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return left == 0, err
}

// replace writes the files to a new directory and makes it the current one; it returns its name.
func (w *writer) replace(prepare func(string) error) (string, error) {
	next, err := w.disk.MkdirTemp(w.dir, time.Now().UTC().Format(timestamp), 0o755)
	if err != nil {
		return "", err
	}
	err = w.fill(next)
	if err == nil && prepare != nil {
		err = prepare(w.dir)
	}
	if err == nil {
		err = w.publish(filepath.Base(next))
	}
	if err != nil {
		_ = w.disk.RemoveTree(next) // otherwise each retry would fill a full disk further
		return "", err
	}
	return filepath.Base(next), nil
}

// fill writes the files to a directory that readers do not see yet.
func (w *writer) fill(dir string) error {
	for p, f := range w.files {
		at := filepath.Join(dir, filepath.FromSlash(p))
		if err := w.disk.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return err
		}
		if err := w.disk.WriteFile(at, f.Data, f.Mode); err != nil {
			return err
		}
		if f.Owner != nil {
			if err := w.disk.Lchown(at, int(*f.Owner), -1); err != nil {
				return err
			}
		}
	}
	return nil
}

// publish makes the directory of that name the current one.
func (w *writer) publish(name string) error {
	link := filepath.Join(w.dir, nextLink)
	if _, err := os.Lstat(link); err == nil {
		if err := w.disk.Remove(link); err != nil {
			return err
		}
	}
	if err := w.disk.Symlink(name, link); err != nil {
		return err
	}
	return w.disk.Rename(link, filepath.Join(w.dir, dataLink))
}

// tidy creates missing links, and removes dangling ones and everything else from earlier writes.
func (w *writer) tidy(current string) error {
	entries, err := os.ReadDir(w.dir)
	if err != nil {
		return err
	}
	there := make(map[string]bool, len(entries))
	for _, e := range entries {
		there[e.Name()] = true
	}
	for name, owner := range w.top {
		if there[name] {
			continue
		}
		link := filepath.Join(w.dir, name)
		if err := w.disk.Symlink(filepath.Join(dataLink, name), link); err != nil {
			return err
		}
		if owner != nil {
			if err := w.disk.Lchown(link, int(*owner), -1); err != nil {
				return err
			}
		}
	}
	for _, e := range entries {
		if !w.isStale(e, current) {
			continue
		}
		if err := w.disk.RemoveTree(filepath.Join(w.dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// isStale reports whether an entry was made by an earlier write and is no longer needed.
func (w *writer) isStale(e fs.DirEntry, current string) bool {
	name := e.Name()
	if strings.HasPrefix(name, "..") {
		return name != dataLink && name != current
	}
	if _, wanted := w.top[name]; wanted {
		return false
	}
	target, _ := os.Readlink(filepath.Join(w.dir, name)) // empty if it is not a link
	return filepath.Dir(target) == dataLink
}
