package wal

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/internal/disk"
	"github.com/keelson-dev/keelson/storage/internal/timeline"
)

// MaxRecordBytes is the largest size of a key together with its value; larger ones are refused with
// storage.ErrTooLarge.
const MaxRecordBytes = 16 << 20

// Options tunes a Store; the zero value is ready to use.
type Options struct {
	// History is how many of the newest changes can be listed and watched from; 0 means 16,384.
	History int
	// HistoryBytes bounds the bytes of keys and values that history keeps alive; 0 means 64 MiB.
	// The newest change is kept whatever its size.
	HistoryBytes int64
	// CompactBytes is the log's minimum size for compaction; 0 means 16 MiB. It must also have outgrown the last
	// snapshot.
	CompactBytes int64
	// FirstRevision is the revision of a store begun in an empty directory; 0 means 1. A store that replaces another
	// must begin above every revision of that one, so that its watchers get storage.ErrCompacted and list again,
	// instead of continuing in a different history. An existing store ignores it.
	FirstRevision int64
	// NoSync leaves it to the operating system when writes reach the disk, which is faster. A killed process loses nothing;
	// a crash of the machine may lose writes that were acknowledged, or damage the store.
	NoSync bool
	// Logger logs recovery and compaction; nil discards.
	Logger *slog.Logger
}

// Store is a storage.Store in a directory. It is safe for concurrent use.
type Store struct {
	timeline *timeline.Timeline
	dir      disk.Dir
	identity uint64
	logger   *slog.Logger
	unlock   io.Closer

	queue     queue
	log       segment       // the committer's
	compactor compactor     // the committer's
	committed chan struct{} // closed when the committer has ended

	closing  sync.Once
	closeErr error
}

// Open opens the store in a directory, which it creates if need be, and locks it until Close. It fails with ErrInUse,
// ErrForeign, ErrVersion, ErrCorrupt or an error of the file system. A failed Open leaves the directory unchanged,
// except that it may have begun a store in an empty one.
func Open(dir string, options Options) (*Store, error) {
	files := disk.At(dir)
	if l, err := readLayout(files); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	} else if err := l.foreign(dir); err != nil {
		return nil, err
	}
	lock, err := files.Lock()
	if errors.Is(err, disk.ErrLocked) {
		return nil, fmt.Errorf("%w: %s; close the other one first", ErrInUse, dir)
	}
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	s, err := open(files, dir, options)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	s.unlock = lock
	return s, nil
}

// open opens the store in a directory that is not in use; path is for messages.
func open(dir disk.Dir, path string, options Options) (*Store, error) {
	if options.NoSync {
		dir = disk.Unsynced(dir)
	}
	l, err := readLayout(dir)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	if err := l.foreign(path); err != nil {
		return nil, err
	}
	if !l.format {
		var identity [8]byte
		_, _ = rand.Read(identity[:]) // never fails
		if err := initialize(dir, l, path, begin(identity, options.FirstRevision)); err != nil {
			return nil, fmt.Errorf("begin store: %w", err)
		}
		if l, err = readLayout(dir); err != nil {
			return nil, fmt.Errorf("open store: %w", err)
		}
	}
	identity, err := readIdentity(dir, path)
	if err != nil {
		return nil, err
	}
	r := recovery{dir: dir, path: path, identity: identity, limits: timeline.Limits{Events: options.History, Bytes: options.HistoryBytes}}
	if err := r.run(l); err != nil {
		return nil, fmt.Errorf("recover store: %w", err)
	}
	return start(r, l, options)
}

// start makes the recovered state durable and begins to take writes.
func start(r recovery, l layout, options Options) (*Store, error) {
	logger := options.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	log, err := resume(r, logger)
	if err != nil {
		return nil, fmt.Errorf("resume log: %w", err)
	}
	for _, name := range append(stale(l, r.snapshot), r.unused...) {
		if err := r.dir.Remove(name); err != nil {
			_ = log.file.Close() // the first error counts
			return nil, fmt.Errorf("clean up: %w", err)
		}
	}
	s := &Store{
		timeline:  r.timeline,
		dir:       r.dir,
		identity:  r.identity,
		logger:    logger,
		queue:     queue{ready: make(chan struct{}, 1)},
		log:       log,
		compactor: newCompactor(r, options.CompactBytes),
		committed: make(chan struct{}),
	}
	go s.commitAll()
	return s, nil
}

// resume opens the last log for appending. A process that died may have left bytes only in the operating system's
// cache, so everything is synced before it can be read.
func resume(r recovery, logger *slog.Logger) (segment, error) {
	if err := r.dir.Sync(); err != nil {
		return segment{}, err
	}
	for _, name := range r.earlier {
		if err := syncFile(r.dir, name); err != nil {
			return segment{}, err
		}
	}
	file, err := r.dir.Append(logName(r.last.revision))
	if err != nil {
		return segment{}, err
	}
	if r.torn > 0 {
		logger.Info("cutting off a write that was not completed before a crash",
			"file", logName(r.last.revision), "offset", r.lastSize, "bytes", r.torn)
		err = file.Truncate(r.lastSize)
	}
	if err == nil {
		err = file.Sync()
	}
	if err != nil {
		_ = file.Close() // the first error counts
		return segment{}, err
	}
	return segment{file: file, seed: r.last.seed(), size: r.lastSize}, nil
}

func syncFile(dir disk.Dir, name string) error {
	file, err := dir.Append(name)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

// Get implements storage.Reader.
func (s *Store) Get(ctx context.Context, key string) (storage.Record, error) {
	return s.timeline.Get(ctx, key)
}

// List implements storage.Reader.
func (s *Store) List(ctx context.Context, prefix string, options storage.ListOptions) (storage.Page, error) {
	return s.timeline.List(ctx, prefix, options)
}

// Revision implements storage.Reader.
func (s *Store) Revision(ctx context.Context) (int64, error) { return s.timeline.Revision(ctx) }

// Oldest implements storage.Historian.
func (s *Store) Oldest(ctx context.Context) (int64, error) { return s.timeline.Oldest(ctx) }

// Create implements storage.Writer.
func (s *Store) Create(ctx context.Context, key string, value []byte) (int64, error) {
	return s.write(ctx, timeline.Write{Verb: timeline.Create, Key: key, Value: value})
}

// Update implements storage.Writer.
func (s *Store) Update(ctx context.Context, key string, value []byte, expected int64) (int64, error) {
	return s.write(ctx, timeline.Write{Verb: timeline.Update, Key: key, Value: value, Expected: expected})
}

// Delete implements storage.Writer.
func (s *Store) Delete(ctx context.Context, key string, expected int64) (int64, error) {
	return s.write(ctx, timeline.Write{Verb: timeline.Delete, Key: key, Expected: expected})
}

// Watch implements storage.Watcher.
func (s *Store) Watch(ctx context.Context, prefix string, after int64) (storage.Stream, error) {
	return s.timeline.Watch(ctx, prefix, after)
}

// Err returns ErrFailed with its cause after the disk has failed a write, nil before.
func (s *Store) Err() error { return s.queue.failure() }

// Close completes pending writes, refuses new ones, ends all streams and unlocks the directory. It returns the disk
// error after which writes failed, if there was one. Closing again returns the same.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.queue.refuse(storage.ErrClosed)
		<-s.committed
		s.timeline.Close()
		if s.unlock != nil {
			s.closeErr = errors.Join(s.closeErr, s.unlock.Close())
		}
	})
	return s.closeErr
}
