package memory

import (
	"context"

	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/internal/timeline"
)

// Options tunes a Store; the zero value is ready to use.
type Options struct {
	// History is how many of the newest changes can be listed and watched from; 0 means 16,384.
	History int
	// HistoryBytes bounds the bytes of keys and values that history keeps alive; 0 means 64 MiB.
	// The newest change is kept whatever its size.
	HistoryBytes int64
	// FirstRevision is the revision of an empty store; 0 means 1. A store that replaces another must begin above every
	// revision of that one, so that its watchers get storage.ErrCompacted and list again, instead of continuing in a
	// different history.
	FirstRevision int64
}

// Store is a storage.Store in memory. It is safe for concurrent use.
type Store struct {
	timeline *timeline.Timeline
}

var (
	_ storage.Store     = (*Store)(nil)
	_ storage.Historian = (*Store)(nil)
)

// New returns an empty store.
func New(options Options) *Store {
	return &Store{timeline: timeline.Begin(options.FirstRevision,
		timeline.Limits{Events: options.History, Bytes: options.HistoryBytes})}
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
	return s.timeline.Do(ctx, timeline.Write{Verb: timeline.Create, Key: key, Value: value})
}

// Update implements storage.Writer.
func (s *Store) Update(ctx context.Context, key string, value []byte, expected int64) (int64, error) {
	return s.timeline.Do(ctx, timeline.Write{Verb: timeline.Update, Key: key, Value: value, Expected: expected})
}

// Delete implements storage.Writer.
func (s *Store) Delete(ctx context.Context, key string, expected int64) (int64, error) {
	return s.timeline.Do(ctx, timeline.Write{Verb: timeline.Delete, Key: key, Expected: expected})
}

// Watch implements storage.Watcher.
func (s *Store) Watch(ctx context.Context, prefix string, after int64) (storage.Stream, error) {
	return s.timeline.Watch(ctx, prefix, after)
}

// Close ends the store: streams end, and every later call fails, with storage.ErrClosed.
// Closing twice does nothing.
func (s *Store) Close() error {
	s.timeline.Close()
	return nil
}
