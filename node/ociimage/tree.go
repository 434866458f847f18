package ociimage

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// ErrTree: a path of a tree is not valid or was set twice.
var ErrTree = errors.New("bad tree")

// Tree is the root file system of an image. Paths are relative to its root, with slashes and without dots. Parent
// directories are added automatically, with mode 0755. Everything belongs to root. A tree is for one goroutine; the
// zero value is empty.
type Tree struct {
	entries map[string]entry
	err     error
}

type entry struct {
	mode    fs.FileMode // type, permissions and setuid, setgid and sticky bits
	target  string      // of symbolic and hard links
	hard    bool
	content []byte
	from    string // a file of the host instead of content
}

// Dir adds a directory. An existing one gets the mode.
func (t *Tree) Dir(path string, mode fs.FileMode) { t.add(path, entry{mode: mode | fs.ModeDir}) }

// File adds a file with the content.
func (t *Tree) File(path string, mode fs.FileMode, content []byte) {
	t.add(path, entry{mode: mode, content: content})
}

// Copy adds a file with the content that a host's file has when the archive is written.
func (t *Tree) Copy(path string, mode fs.FileMode, from string) {
	t.add(path, entry{mode: mode, from: from})
}

// Symlink adds a symbolic link.
func (t *Tree) Symlink(path, target string) {
	t.add(path, entry{mode: fs.ModeSymlink | 0o777, target: target})
}

// Link adds another name of a file of the tree.
func (t *Tree) Link(path, target string) { t.add(path, entry{target: target, hard: true}) }

// Has reports whether the path exists.
func (t *Tree) Has(path string) bool { _, ok := t.entries[path]; return ok }

func (t *Tree) add(name string, e entry) {
	old, exists := t.entries[name]
	switch {
	case !fs.ValidPath(name) || name == ".":
		t.err = errors.Join(t.err, fmt.Errorf("%w: %q is not a path below the root", ErrTree, name))
		return
	case exists && (!old.mode.IsDir() || !e.mode.IsDir()):
		t.err = errors.Join(t.err, fmt.Errorf("%w: %s is there twice", ErrTree, name))
		return
	}
	if t.entries == nil {
		t.entries = map[string]entry{}
	}
	t.entries[name] = e
	for up := path.Dir(name); up != "."; up = path.Dir(up) {
		if above, ok := t.entries[up]; !ok {
			t.entries[up] = entry{mode: fs.ModeDir | 0o755}
		} else if !above.mode.IsDir() {
			t.err = errors.Join(t.err, fmt.Errorf("%w: %s is below %s, which is no directory", ErrTree, name, up))
		}
	}
}

// written is the time of all files.
func written() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

// write writes a layer: everything in path order, but hard links last, after their targets.
func (t *Tree) write(w io.Writer) error {
	if t.err != nil {
		return t.err
	}
	var names []string
	for name, e := range t.entries {
		if e.hard && (!t.Has(e.target) || !t.entries[e.target].mode.IsRegular() || t.entries[e.target].hard) {
			return fmt.Errorf("%w: %s is to be linked to %s, which is no file", ErrTree, name, e.target)
		}
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if x, y := t.entries[a].hard, t.entries[b].hard; x != y {
			if x {
				return 1
			}
			return -1
		}
		return strings.Compare(a, b)
	})
	layer := tar.NewWriter(w)
	for _, name := range names {
		e := t.entries[name]
		if e.hard {
			e.mode = t.entries[e.target].mode // unpackers set it for each name
		}
		if err := e.write(layer, name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return layer.Close()
}

func (e entry) write(layer *tar.Writer, name string) error {
	header := &tar.Header{Name: name, Mode: unixMode(e.mode), ModTime: written(), Linkname: e.target, Format: tar.FormatPAX}
	switch {
	case e.hard:
		header.Typeflag = tar.TypeLink
		return layer.WriteHeader(header)
	case e.mode.IsDir():
		header.Typeflag, header.Name = tar.TypeDir, name+"/"
		return layer.WriteHeader(header)
	case e.mode&fs.ModeSymlink != 0:
		header.Typeflag = tar.TypeSymlink
		return layer.WriteHeader(header)
	}
	var content io.Reader = bytes.NewReader(e.content)
	header.Typeflag, header.Size = tar.TypeReg, int64(len(e.content))
	if e.from != "" {
		file, err := os.Open(e.from)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		info, err := file.Stat()
		if err != nil {
			return err
		}
		content, header.Size = file, info.Size()
	}
	if err := layer.WriteHeader(header); err != nil {
		return err
	}
	_, err := io.Copy(layer, content)
	return err
}

// unixMode is the mode with its special bits where Unix has them.
func unixMode(m fs.FileMode) int64 {
	bits := int64(m.Perm())
	for flag, bit := range map[fs.FileMode]int64{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
		if m&flag != 0 {
			bits |= bit
		}
	}
	return bits
}
