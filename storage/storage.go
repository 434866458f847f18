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
	// ErrUnreadable: a record is there, but its value cannot be told, for example because no key
	// that is known decrypts it.
	ErrUnreadable = errors.New("stored value is unreadable")
)

// Record is one live key with the revision of its last write. Value belongs to the store: a
// reader must not change it, and it stays valid as long as it is referenced.
type Record struct {
	Key      string
	Value    []byte
	Revision int64
	// Err, an ErrUnreadable, tells why there is no Value. One such record does not fail a List.
	Err error
}

// EventType says what a write did to a key.
type EventType int

// The kinds of change. Put covers create and update; Prev is nil after a create.
const (
	Put EventType = iota + 1
	Delete
	// Progress is no change: it says that everything up to Revision has been told. Nothing else is set.
	Progress
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
	// Err, an ErrUnreadable, tells why a Put has no Value.
	Err error
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
	// Get returns the newest record of key or ErrNotFound. With ErrUnreadable comes a record that
	// has all but the value.
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
	// Next blocks until there are changes, then returns at least one event. It returns
	// ctx.Err() when the context ends (the stream stays usable), ErrCompacted when the reader
	// fell too far behind, ErrClosed when the store or the stream was closed.
	//
	// Once this store's Revision has returned a revision, Next comes to it without a further write:
	// by a change of that revision or a later one, or by a Progress event. So a reader who asks
	// for the revision and waits until the stream is there has seen everything up to it, also
	// where others write keys outside the prefix. Progress events may come at any time; no
	// change of their revision or an older one follows.
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

// Lessor is a Store that deletes records by itself when their time is over. Such a deletion is
// a change like any other. In stores that are no Lessor the writer deletes what is past its time.
type Lessor interface {
	// CreateFor is Create of a record that lives for ttl, in whole seconds, rounded up. The store
	// may keep it a little longer, never shorter.
	CreateFor(ctx context.Context, key string, value []byte, ttl time.Duration) (revision int64, err error)
	// UpdateFor is Update of a record that lives for ttl from now on. A plain Update makes a
	// record stay.
	UpdateFor(ctx context.Context, key string, value []byte, expected int64, ttl time.Duration) (revision int64, err error)
}

// Compactor is a Store whose history grows until somebody cuts it.
type Compactor interface {
	// Compact forgets the history before revision, at which and after which the store can still be
	// read and watched. To ask for what is gone already is no error.
	Compact(ctx context.Context, revision int64) error
}

// Historian is a Store that can tell how far back its history reaches.
type Historian interface {
	// Oldest returns the oldest revision that List and Watch still answer. It may have become older
	// than that when the caller gets it.
	Oldest(ctx context.Context) (int64, error)
}

// Refresher is a Store that may hold a record in a form which is no longer the wanted one, such as
// encrypted with a key that was replaced. Writing the same value again brings it to the wanted form.
type Refresher interface {
	// Stale tells whether the newest record of key should be written again. ErrNotFound is as in Get.
	Stale(ctx context.Context, key string) (bool, error)
}

// Ready tells why a store cannot be used now: for good, as Err says, or for the moment, which a store says
// that has a method Ready(ctx) error, such as one behind a network. Health checks ask it.
func Ready(ctx context.Context, s Store) error {
	if err := Err(s); err != nil {
		return err
	}
	if s, ok := s.(interface{ Ready(context.Context) error }); ok {
		return s.Ready(ctx)
	}
	return nil
}

// Err tells why a store takes no more writes and never will again, nil if it does or does not know.
// Such a store has a method Err() error; it still serves reads, and health checks should fail.
func Err(s Store) error {
	if s, ok := s.(interface{ Err() error }); ok {
		return s.Err()
	}
	return nil
}
