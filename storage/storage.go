package storage

import (
	"context"
	"errors"
)

// Errors a Store returns, possibly wrapped: test them with errors.Is.
var (
	// ErrNotFound: the key has no live record.
	ErrNotFound = errors.New("key not found")
	// ErrExists: Create found a live record at the key.
	ErrExists = errors.New("key already exists")
	// ErrConflict: the record's revision is not the expected one.
	ErrConflict = errors.New("revision conflict")
	// ErrCompacted: the revision asked for is older than the history the store keeps, or a
	// reader fell so far behind that its next event is gone. Start again from a List.
	ErrCompacted = errors.New("revision compacted")
	// ErrFutureRevision: the revision asked for has not been written yet.
	ErrFutureRevision = errors.New("revision is in the future")
	// ErrClosed: the store was closed. A write that fails with it may or may not have happened.
	ErrClosed = errors.New("store closed")
	// ErrEmptyKey: a write named no key.
	ErrEmptyKey = errors.New("key is empty")
	// ErrTooLarge: key and value are larger than the backend takes. Every backend takes 2 MiB.
	ErrTooLarge = errors.New("key and value too large")
)

// Record is one live key with the revision of its last write. Value belongs to the store: a
// reader must not change it, and it stays valid as long as it is referenced.
type Record struct {
	Key      string
	Value    []byte
	Revision int64
}

// EventType says what a write did to a key.
type EventType int

// The kinds of change. Put covers create and update; Prev is nil after a create.
const (
	Put EventType = iota + 1
	Delete
)

// Event is one committed change. Value and Prev belong to the store, as a Record's do; the
// slice an Event came in belongs to the reader. For a Delete, Value is nil; a Put of no bytes has
// an empty one that is not nil.
// Prev is the value before the change, nil when the key was not there or when a backend that
// reopened its history no longer has it.
type Event struct {
	Type     EventType
	Key      string
	Value    []byte
	Prev     []byte
	Revision int64
}

// ListOptions narrows a List. The zero value lists everything at the newest revision.
type ListOptions struct {
	// Revision reads the state as it was right after that revision; 0 is the newest. Pages of
	// one list are read at the Revision of its first page.
	Revision int64
	// After skips keys up to and including this one; empty starts at the first.
	After string
	// Limit bounds the records of the answer; 0 means no bound.
	Limit int
}

// Page is the answer to a List: records in key order, the revision they are consistent at,
// and whether more follow.
type Page struct {
	Records  []Record
	Revision int64
	More     bool
}

// Reader reads committed state.
type Reader interface {
	// Get returns the newest record of key or ErrNotFound.
	Get(ctx context.Context, key string) (Record, error)
	// List returns the records whose keys start with prefix, all at one revision. It fails with
	// ErrCompacted or ErrFutureRevision when that revision cannot be read.
	List(ctx context.Context, prefix string, options ListOptions) (Page, error)
	// Revision returns the newest committed revision: every write acknowledged before the
	// call, by anyone, has a revision at or below it.
	Revision(ctx context.Context) (int64, error)
}

// Writer changes one key at a time. Every change gets a revision of its own, greater than all
// before it; it is durable, as far as the backend promises durability, and visible to every
// Reader, before the method returns. When the context ends early the outcome is unknown.
// The store keeps value: the caller must not change it afterwards.
type Writer interface {
	// Create writes a key that has no record, or fails with ErrExists.
	Create(ctx context.Context, key string, value []byte) (revision int64, err error)
	// Update replaces the record whose revision is expected. It fails with ErrConflict when the
	// record has another revision, with ErrNotFound when there is none.
	Update(ctx context.Context, key string, value []byte, expected int64) (revision int64, err error)
	// Delete removes the record whose revision is expected, failing as Update does. The
	// deletion has a revision of its own, which is returned.
	Delete(ctx context.Context, key string, expected int64) (revision int64, err error)
}

// Watcher follows changes.
type Watcher interface {
	// Watch streams every change to keys starting with prefix whose revision is greater than
	// after, in revision order, without gap or duplicate. It fails with ErrCompacted when part
	// of that history is gone, with ErrFutureRevision when after lies ahead of the store.
	Watch(ctx context.Context, prefix string, after int64) (Stream, error)
}

// Stream is one watch, used by one goroutine at a time.
type Stream interface {
	// Next blocks until there are changes, then returns at least one of them. It returns
	// ctx.Err() when the context ends (the stream stays usable), ErrCompacted when the reader
	// fell too far behind, ErrClosed when the store or the stream was closed.
	Next(ctx context.Context) ([]Event, error)
	// Close releases the stream. It may be called more than once, and concurrently with Next.
	Close()
}

// Store is revisioned bytes under string keys, which are ordered bytewise: the contract between
// the registry and a backend. Revisions are positive: a store nobody has written to is already at
// one. How much history a store keeps, and how much of it outlives a restart, is the backend's to
// say; a reader that asks for more gets ErrCompacted. Implementations are safe for concurrent use.
type Store interface {
	Reader
	Writer
	Watcher
}

// Err tells why a store takes no more writes and never will again, nil if it does or does not know.
// Such a store has a method Err() error; it still serves reads, and health checks should fail.
func Err(s Store) error {
	if s, ok := s.(interface{ Err() error }); ok {
		return s.Err()
	}
	return nil
}
