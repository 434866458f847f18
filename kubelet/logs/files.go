package logs

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	compressed = ".gz"
	unfinished = ".tmp" // an interrupted compression
)

// Rotated returns the rotated files of the log at path, oldest first.
func Rotated(path string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	prefix := filepath.Base(path) + "."
	for _, e := range entries {
		if name := e.Name(); strings.HasPrefix(name, prefix) && !strings.HasSuffix(name, unfinished) {
			names[name] = true
		}
	}
	var all []string
	for name := range names {
		if !names[name+compressed] { // otherwise it is already compressed and about to be removed
			all = append(all, filepath.Join(filepath.Dir(path), name))
		}
	}
	slices.SortFunc(all, func(a, b string) int {
		return strings.Compare(strings.TrimSuffix(a, compressed), strings.TrimSuffix(b, compressed))
	})
	return all, nil
}

// files are the files of one log; current is the one being read.
type files struct {
	path    string
	older   []string // still to be read, oldest first
	newest  *file    // opened before older was listed, so that no rotation comes in between
	current *file
	skip    int64 // lines to skip in the first of older
	wanted  func(Stream) bool
}

// open opens the log at path.
func open(path string) (*files, error) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	f := &files{path: path}
	if f.newest, err = openPlain(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	older, err := Rotated(path)
	if err != nil {
		f.close()
		return nil, err
	}
	for _, name := range older {
		if f.newest != nil && f.newest.is(name) {
			break // rotated just now
		}
		f.older = append(f.older, name)
	}
	if f.newest == nil && len(f.older) == 0 {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	return f, nil
}

func (f *files) close() {
	for _, one := range []*file{f.newest, f.current} {
		if one != nil {
			_ = one.closer() // it was read
		}
	}
}

func openPlain(path string) (*file, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	opened, err := newFile(f, f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return opened, nil
}

// openOlder opens a rotated file, which may have been compressed since it was listed.
func openOlder(path string) (*file, error) {
	if !strings.HasSuffix(path, compressed) {
		f, err := openPlain(path)
		if !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
		path += compressed
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read %s: %w", filepath.Base(path), err), f.Close())
	}
	opened, err := newFile(f, z)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return opened, nil
}

// is reports whether the file is the one at path.
func (f *file) is(path string) bool {
	info, err := os.Stat(path)
	return err == nil && os.SameFile(f.info, info)
}

// next makes the next file the current one; it returns false after the newest.
func (f *files) next() bool {
	for len(f.older) > 0 {
		name, skip := f.older[0], f.skip
		f.older, f.skip = f.older[1:], 0
		older, err := openOlder(name)
		if err != nil {
			continue // removed in the meantime, or damaged: the rest is worth reading
		}
		older.pass(skip, f.wanted)
		f.become(older)
		return true
	}
	if f.newest == nil {
		return false
	}
	f.become(f.newest)
	f.newest = nil
	return true
}

func (f *files) become(next *file) {
	if f.current != nil {
		_ = f.current.closer() // it was read
	}
	f.current = next
}

// seek moves to the last n lines.
func (f *files) seek(n int64, wanted func(Stream) bool) error {
	f.wanted = wanted
	if f.newest != nil {
		plain, ok := f.newest.Reader.(*os.File)
		if !ok {
			return fmt.Errorf("%s is no plain file", f.path)
		}
		size, err := plain.Seek(0, io.SeekEnd)
		if err != nil {
			return err
		}
		at, found, err := tail(plain, size, n, wanted)
		if err != nil {
			return fmt.Errorf("find the last lines: %w", err)
		}
		if _, err := plain.Seek(at, io.SeekStart); err != nil {
			return err
		}
		n -= found
	}
	for i := len(f.older) - 1; i >= 0; i-- {
		if n == 0 {
			f.older = f.older[i+1:]
			return nil
		}
		has := count(f.older[i], wanted)
		if has >= n {
			f.older, f.skip = f.older[i:], has-n
			return nil
		}
		n -= has
	}
	return nil
}

// count counts the lines of a file; a damaged one has none.
func count(path string, wanted func(Stream) bool) int64 {
	f, err := openOlder(path)
	if err != nil {
		return 0
	}
	defer func() { _ = f.closer() }()
	var n int64
	for {
		line, err := f.line()
		if errors.Is(err, io.EOF) {
			return n
		}
		if err != nil {
			return 0
		}
		if ends(line, wanted) {
			n++
		}
	}
}

// pass skips n lines. Read errors are left to the next read.
func (f *file) pass(n int64, wanted func(Stream) bool) {
	for n > 0 {
		line, err := f.line()
		if err != nil {
			return
		}
		if ends(line, wanted) {
			n--
		}
	}
}

// line reads the beginning of a line, up to the reader's buffer size, and drops the rest.
func (f *file) line() ([]byte, error) {
	line, err := f.lines.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	line = slices.Clone(line)
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = f.lines.ReadSlice('\n')
	}
	return line, err
}
