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

// ErrClosed says that the file was closed.
var ErrClosed = errors.New("audit file is closed")

// rotatedAt is the layout of the time in the name of a rotated file, as upstream's.
const rotatedAt = "2006-01-02T15-04-05.000"

// FileOptions of a File. The zero value is usable.
type FileOptions struct {
	// MaxSize is the size in bytes over which a file is rotated. 0 is 100 MiB.
	MaxSize int64
	// Keep is how many rotated files are kept. 0 is 10, below 0 all of them.
	Keep int
	// MaxAge is how long a rotated file is kept, as far as Keep allows. 0 is no limit.
	MaxAge time.Duration
}

// pruneEvery is how often old files are looked for.
const pruneEvery = time.Hour

// File is a Sink that appends events to a file, as a JSON document per line. The file is readable by its owner alone. When
// Write returns, the event is in the file, but not necessarily on the disk. A file that would grow over its limit is renamed
// to NAME-TIME.EXT; of these, the oldest and those that are too old are removed.
type File struct {
	path string
	o    FileOptions

	mu   sync.Mutex
	file *os.File
	size int64
	torn bool      // the last line is incomplete
	seen time.Time // when files that are too old were last looked for
}

// OpenFile opens or creates the file, whose directory must exist. It appends to what is there.
func OpenFile(path string, o FileOptions) (*File, error) {
	if o.MaxAge < 0 {
		return nil, fmt.Errorf("audit file: MaxAge %v: must not be negative; 0 keeps files for ever", o.MaxAge)
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
		f.torn = last[0] != '\n' // a crash interrupted the last write
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

// rotate renames the file and creates a new one. If that fails, it goes on with the old one: a file that is too large is
// better than events that are lost.
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

// aside returns a free name for a file that is full.
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

// parts returns what the names of rotated files begin and end with.
func (f *File) parts() (head, ext string) {
	ext = filepath.Ext(f.path)
	return strings.TrimSuffix(f.path, ext) + "-", ext
}

// prune removes the rotated files that are too many or too old.
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

// Close syncs the file to the disk and closes it. Later writes fail with ErrClosed.
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
