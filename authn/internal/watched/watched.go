// Package watched keeps the parsed content of a file, and reads it again when the file changes.
package watched

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

// maxSize bounds how much of a file is read, in bytes: far more than files of credentials need.
const maxSize = 16 << 20

// Options of Open; the zero value is ready to use.
type Options struct {
	// Interval is how often Run checks whether the file changed; 0 means 10 s.
	Interval time.Duration
	// Log receives the errors of reading the file again; nil discards.
	Log *slog.Logger
}

// File is a file and its last good content. It is safe for concurrent use.
type File[T any] struct {
	path     string
	parse    func([]byte) (T, error)
	interval time.Duration
	log      *slog.Logger
	current  atomic.Pointer[content[T]]
}

type content[T any] struct {
	sum   [sha256.Size]byte
	value T
}

// Open reads the file at path.
func Open[T any](path string, parse func([]byte) (T, error), o Options) (*File[T], error) {
	f := &File[T]{path: path, parse: parse, interval: o.Interval, log: o.Log}
	if f.interval <= 0 {
		f.interval = 10 * time.Second
	}
	if f.log == nil {
		f.log = slog.New(slog.DiscardHandler)
	}
	return f, f.read()
}

// Value returns the last good content.
func (f *File[T]) Value() T { return f.current.Load().value }

// Run reads the file again whenever it changes, until ctx ends. While it is unreadable or malformed, the previous
// content stays in force; each cause is logged once.
func (f *File[T]) Run(ctx context.Context) error {
	tick := time.NewTicker(f.interval)
	defer tick.Stop()
	told := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			err := f.read()
			if err == nil {
				told = ""
			} else if err.Error() != told {
				told = err.Error()
				f.log.Error("file not read again, what it said before stays in force", "file", f.path, "error", err)
			}
		}
	}
}

// read compares content, not modification times: a file of this size is cheap to read, and a replaced mount or a
// restored backup need not have a newer time.
func (f *File[T]) read() error {
	data, err := load(f.path)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	last := f.current.Load()
	if last != nil && last.sum == sum {
		return nil
	}
	value, err := f.parse(data)
	if err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	f.current.Store(&content[T]{sum: sum, value: value})
	if last != nil {
		f.log.Info("file read again", "file", f.path)
	}
	return nil
}

func load(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(file, maxSize+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxSize {
		return nil, fmt.Errorf("%s: larger than %d MiB", path, maxSize>>20)
	}
	return data, nil
}
