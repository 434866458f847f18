package stats

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"sync"
	"time"
)

// maxEntries is the maximum number of files visited below one directory: enough for usual ones, and few enough not to
// keep a disk busy for long. Of larger trees, only these count.
const maxEntries = 500_000

// size is the space that a directory takes with everything below it.
type size struct{ bytes, inodes uint64 }

// measured is a size and the time of its measurement.
type measured struct {
	size
	at time.Time
}

// trees measures directories and caches their sizes.
type trees struct {
	age time.Duration

	mu    sync.Mutex // one measurement at a time is enough load for a disk
	known map[string]measured
}

// measure returns the size of a directory, not much older than age; false if it cannot be read.
func (t *trees) measure(ctx context.Context, dir string, now time.Time) (size, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m := t.known[dir]; now.Sub(m.at) < t.age {
		return m.size, true
	}
	s, err := walk(ctx, dir)
	if err != nil {
		delete(t.known, dir)
		return size{}, false
	}
	t.known[dir] = measured{size: s, at: now}
	return s, true
}

// forget drops measurements that are too old.
func (t *trees) forget(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for dir, m := range t.known {
		if now.Sub(m.at) >= t.age {
			delete(t.known, dir)
		}
	}
}

// walk adds up the files below a directory on its own filesystem, each once however many links it has. Files that
// vanish meanwhile do not count.
func walk(ctx context.Context, dir string) (size, error) {
	var out size
	entries := 0
	device := uint64(0)
	seen := map[uint64]bool{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			if path != dir && errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		if entries++; entries > maxEntries {
			return fs.SkipAll
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return nil //nolint:nilerr // the file is gone
		}
		file := place(info)
		if path == dir {
			device = file.device
		} else if file.device != device {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if file.links > 1 && !entry.IsDir() {
			if seen[file.inode] {
				return nil
			}
			seen[file.inode] = true
		}
		out.bytes += file.bytes
		out.inodes++
		return nil
	})
	return out, err
}

// file is the identity of a file and the space that it takes.
type file struct{ device, inode, links, bytes uint64 }
