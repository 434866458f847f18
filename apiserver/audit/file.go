package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// ErrClosed: the file was closed.
var ErrClosed = errors.New("audit file is closed")

// rotatedAt is the time in the name of a file that was rotated away, as upstream has it.
const rotatedAt = "2006-01-02T15-04-05.000"

// FileOptions of a File; the zero value is good.
type FileOptions struct {
	// MaxSize is how many bytes a file grows to before it is rotated; 0 is 100 MiB.
	MaxSize int64
	// Keep is how many rotated files are kept; 0 is 10, below 0 all.
	Keep int
	// MaxAge is how long a rotated file is kept; 0 is for ever, as far as Keep goes.
	MaxAge time.Duration
}

// pruneEvery is how often files are looked for that are too old.
const pruneEvery = time.Hour

// File is a Sink that appends events to a file, as a JSON document per line, readable by its
// owner only. An event is in the file (of the operating system, not yet on the disk) when Write
// returns. A file that would grow over its limit is renamed to NAME-TIME.EXT, and the oldest of
// those are removed, and those that are too old.
type File struct {
	path string
	o    FileOptions

	mu   sync.Mutex
	file *os.File
	size int64
	torn bool      // the last line is not whole
	seen time.Time // when files that are too old were last looked for
}

// OpenFile opens or makes the file; its directory must exist. What it holds is kept.
func OpenFile(path string, o FileOptions) (*File, error) {
	if o.MaxAge < 0 {
		return nil, fmt.Errorf("audit file: MaxAge %v: an age is not negative; 0 keeps files for ever", o.MaxAge)
	}
	if o.MaxSize <= 0 {
		o.MaxSize = 100 << 20
	}
	if o.Keep == 0 {
		o.Keep = 10
	}
	f := &File{path: filepath.Clean(path), o: o}
	if err := f.open(); err != nil {
		return nil, fmt.Errorf("audit file: %w", err)
	}
	return f, nil
}

func (f *File) open() error {
	file, err := os.OpenFile(f.path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return errors.Join(err, file.Close())
	}
	f.torn = false
	if last := make([]byte, 1); size > 0 {
		if _, err := file.ReadAt(last, size-1); err != nil {
			return errors.Join(err, file.Close())
		}
		f.torn = last[0] != '\n' // a crash came between
	}
	f.file, f.size = file, size
	return nil
}

// Write appends an event.
func (f *File) Write(e *auditv1.Event) error {
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("audit file: %w", err)
	}
	line = append(line, '\n')
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		return ErrClosed
	}
	var rotation error
	switch {
	case f.size > 0 && f.size+int64(len(line)) > f.o.MaxSize:
		rotation = f.rotate()
	case f.o.MaxAge > 0 && time.Since(f.seen) >= pruneEvery:
		rotation = f.prune()
	}
	if err := errors.Join(rotation, f.append(line)); err != nil {
		return fmt.Errorf("audit file: %w", err)
	}
	return nil
}

func (f *File) append(line []byte) error {
	if f.torn {
		line = append([]byte{'\n'}, line...)
	}
	n, err := f.file.Write(line)
	f.size += int64(n)
	f.torn = err != nil && (f.torn || n > 0)
	return err
}

// rotate puts the file aside and begins a new one. Where that fails, the old one goes on: a file
// that is too large is better than events that are lost.
func (f *File) rotate() error {
	aside := f.aside()
	if err := os.Rename(f.path, aside); err != nil {
		return fmt.Errorf("rotate: %w", err)
	}
	old := f.file
	if err := f.open(); err != nil {
		return fmt.Errorf("rotate: %w", errors.Join(err, os.Rename(aside, f.path)))
	}
	return errors.Join(old.Close(), f.prune())
}

// aside is a free name for a file that is full.
func (f *File) aside() string {
	head, ext := f.parts()
	name := head + time.Now().UTC().Format(rotatedAt)
	path := name + ext
	for n := 1; ; n++ {
		if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
			return path
		}
		path = fmt.Sprintf("%s-%03d%s", name, n, ext)
	}
}

// parts are what the names of rotated files begin and end with.
func (f *File) parts() (head, ext string) {
	ext = filepath.Ext(f.path)
	return strings.TrimSuffix(f.path, ext) + "-", ext
}

// prune removes the files aside that are too many or too old.
func (f *File) prune() error {
	f.seen = time.Now()
	if f.o.Keep < 0 && f.o.MaxAge == 0 {
		return nil
	}
	entries, err := os.ReadDir(filepath.Dir(f.path))
	if err != nil {
		return err
	}
	head, ext := f.parts()
	var aside []string
	old := 0
	for _, entry := range entries {
		path := filepath.Join(filepath.Dir(f.path), entry.Name())
		middle, begins := strings.CutPrefix(path, head)
		middle, ends := strings.CutSuffix(middle, ext)
		if !begins || !ends || len(middle) < len(rotatedAt) {
			continue
		}
		at, err := time.Parse(rotatedAt, middle[:len(rotatedAt)])
		if err != nil {
			continue
		}
		aside = append(aside, path)
		if f.o.MaxAge > 0 && f.seen.Sub(at) > f.o.MaxAge {
			old++
		}
	}
	slices.Sort(aside) // by age
	if f.o.Keep >= 0 {
		old = max(old, len(aside)-f.o.Keep)
	}
	var failures []error
	for _, path := range aside[:old] {
		failures = append(failures, os.Remove(path))
	}
	return errors.Join(failures...)
}

// Close brings what was written to the disk and closes the file. Writes after it fail with
// ErrClosed.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		return nil
	}
	err := errors.Join(f.file.Sync(), f.file.Close())
	f.file = nil
	if err != nil {
		return fmt.Errorf("audit file: %w", err)
	}
	return nil
}
