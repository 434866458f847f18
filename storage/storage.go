package storage

import (
	"context"
	"errors"
	"time"
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
	// ErrTooLarge: key and value are larger than the backend takes. Every backend takes 1 MiB.
	ErrTooLarge = errors.New("key and value too large")
	// ErrUnreadable: a record exists, but its value cannot be read, for example because no known key decrypts it.
	ErrUnreadable = errors.New("stored value is unreadable")
)

// Record is one live key with the revision of its last write. Value belongs to the store: a
// reader must not change it, and it stays valid as long as it is referenced.
type Record struct {
	Key      string // the key
	Value    []byte // its value
	Revision int64  // of the last write
	// Err is an ErrUnreadable if the Value cannot be read. One such record does not fail a List.
	Err error
}

// EventType is what a write did to a key.
type EventType int

// The kinds of change. Put covers create and update; Prev is nil after a create.
const (
	Put EventType = iota + 1
	Delete
	// Progress is not a change: it reports that all changes up to Revision have been delivered. Nothing else is set.
	Progress
)

// Event is one committed change. Value and Prev belong to the store, as a Record's do; the slice an Event came in
// belongs to the reader.
type Event struct {
	Type     EventType
	Key      string // that changed
	Value    []byte // after the change: nil for a Delete, not nil for a Put, even of no bytes
	Prev     []byte // before the change: nil if there was no record, or if a reopened backend no longer has it
	Revision int64  // of the change
	// Err is an ErrUnreadable if a Put's Value cannot be read.
	Err error
}

// ListOptions narrows a List. The zero value lists everything at the newest revision.
type ListOptions struct {
	// Revision reads the state as it was right after that revision; 0 is the newest. Pages of
	// one list are read at the Revision of its first page.
	Revision int64
	// After skips keys up to and including this one; empty starts at the first key.
	After string
	// Limit bounds the records of the answer; 0 means no bound.
	Limit int
}

// Page is the answer to a List.
type Page struct {
	Records  []Record // in key order
	Revision int64    // at which the records are consistent
	More     bool     // whether further records follow
}

// Reader reads committed state.
type Reader interface {
	// Get returns the newest record of key, or ErrNotFound. With ErrUnreadable it returns the record without its value.
	Get(ctx context.Context, key string) (Record, error)
	// List returns the records whose keys start with prefix, all at one revision. It fails with
	// ErrCompacted or ErrFutureRevision when that revision cannot be read.
	List(ctx context.Context, prefix string, options ListOptions) (Page, error)
	// Revision returns the newest committed revision: every write acknowledged before the call, to any client, has a
	// revision at or below it.
	Revision(ctx context.Context) (int64, error)
}

// Writer changes one key at a time. Every change gets a revision of its own, greater than all before it. Before the
// method returns, the change is visible to every Reader, and durable as far as the backend promises durability. When
// the context ends early the outcome is unknown. The store keeps value: the caller must not change it afterwards.
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
	// Next blocks until there are changes, then returns at least one event. It returns
	// ctx.Err() when the context ends (the stream stays usable), ErrCompacted when the reader
	// fell too far behind, ErrClosed when the store or the stream was closed.
	//
	// Once this store's Revision has returned a revision, Next reaches it without a further write: by a change of that
	// revision or a later one, or by a Progress event. So a reader that asks for the revision and reads the stream up
	// to it has seen every change before it, even if other writers change only keys outside the prefix. Progress events
	// may come at any time; no change of their revision or an older one follows.
	Next(ctx context.Context) ([]Event, error)
	// Close releases the stream. It may be called more than once, and concurrently with Next.
	Close()
}

// Store is revisioned bytes under string keys, which are ordered bytewise: the contract between the registry and a
// backend. Revisions are positive: an empty store is already at one. The backend decides how much history it keeps, and
// how much of it survives a restart; a reader that asks for more gets ErrCompacted. Implementations are safe for
// concurrent use.
type Store interface {
	Reader
	Writer
	Watcher
}

// Wrapper is a Store in front of another one. As looks through it: what only some stores can do, the wrapped one goes on
// doing. A wrapper that must see such calls, because of the values in them, say, has the methods itself, in a type that it
// makes only where As finds them in the wrapped store.
type Wrapper interface {
	Unwrap() Store
}

// As returns what a store, or the nearest one that it wraps, can do besides reading and writing: T is Lessor, Compactor,
// Historian, Refresher or an interface of the caller's. It is to be used in place of type assertions, which do not see
// through wrappers.
func As[T any](store Reader) (T, bool) {
	for store != nil {
		if able, ok := store.(T); ok {
			return able, true
		}
		w, ok := store.(Wrapper)
		if !ok {
			break
		}
		store = w.Unwrap()
	}
	var none T
	return none, false
}

// Lessor is a Store that deletes expired records by itself. Such a deletion is a change like any other. In other stores
// the writer must delete expired records.
type Lessor interface {
	// CreateFor is Create of a record that lives for ttl, in whole seconds, rounded up. The store
	// may keep it a little longer, never shorter.
	CreateFor(ctx context.Context, key string, value []byte, ttl time.Duration) (revision int64, err error)
	// UpdateFor is Update of a record that lives for ttl from now on. A plain Update makes a record permanent.
	UpdateFor(ctx context.Context, key string, value []byte, expected int64, ttl time.Duration) (revision int64, err error)
}

// Compactor is a Store whose history grows until it is compacted.
type Compactor interface {
	// Compact discards the history before revision. The store can still be read and watched from revision on.
	// Compacting to an older revision than before is no error.
	Compact(ctx context.Context, revision int64) error
}

// Historian is a Store that knows how far back its history reaches.
type Historian interface {
	// Oldest returns the oldest revision that List and Watch still serve. It may already be gone when the caller uses
	// it.
	Oldest(ctx context.Context) (int64, error)
}

// Refresher is a Store that may hold records in an outdated form, such as encrypted with a key that was replaced.
// Writing the same value again brings a record to the current form.
type Refresher interface {
	// Stale reports whether the newest record of key should be written again. ErrNotFound is as in Get.
	Stale(ctx context.Context, key string) (bool, error)
}

// Ready returns why a store cannot be used now: permanently (see Err), or temporarily, as a store behind a network
// reports by a method Ready(ctx) error. It is meant for health checks.
func Ready(ctx context.Context, s Store) error {
	if err := Err(s); err != nil {
		return err
	}
	if s, ok := As[interface{ Ready(context.Context) error }](s); ok {
		return s.Ready(ctx)
	}
	return nil
}

// Err returns why a store will never take writes again, nil if it does or does not know. Such a store has a method
// Err() error; it still serves reads, but health checks should fail.
func Err(s Store) error {
	if s, ok := As[interface{ Err() error }](s); ok {
		return s.Err()
	}
	return nil
}
