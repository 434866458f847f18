package timeline

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"

	"k8s.io/utils/third_party/forked/golang/btree"

	"github.com/keelson-dev/keelson/storage"
)

// Genesis is the revision of a store nobody has written to. It is not 0, because 0 means
// "the newest" to a reader.
const Genesis = 1

const (
	degree = 32 // of the index: nodes of half a kilobyte, which a write after a list copies

	// keptTrees is how many indexes of older revisions are kept for later pages of a list.
	keptTrees = 8
)

// Limits bounds the history; the newest change is always kept.
type Limits struct {
	Events int   // number of changes
	Bytes  int64 // bytes of keys and values, replaced ones included
}

// The defaults of a backend.
const (
	DefaultEvents = 1 << 14
	DefaultBytes  = 64 << 20
)

func (l Limits) withDefaults() Limits {
	if l.Events <= 0 {
		l.Events = DefaultEvents
	}
	if l.Bytes <= 0 {
		l.Bytes = DefaultBytes
	}
	return l
}

type index = btree.BTree[*storage.Record]

// Timeline is the state at every revision from a floor to the newest. It is safe for concurrent use, but Draft and
// Commit are for one writer at a time.
type Timeline struct {
	limits Limits

	mu       sync.Mutex
	live     *index
	revision int64
	floor    int64 // every change after this revision is in the history
	history  ring
	bytes    int64 // of the history
	kept     []frozen
	wake     chan struct{} // closed at the next change; nil without waiters
	closed   bool
	probe    storage.Record // for lookup, which would otherwise allocate one
}

// frozen is the index as it was at one revision.
type frozen struct {
	revision int64
	tree     *index
}

// Begin returns an empty timeline for a new store. A first revision above Genesis is kept; what came before it may have
// happened in another store, so it counts as compacted.
func Begin(first int64, limits Limits) *Timeline {
	if first > Genesis {
		return At(first, limits)
	}
	return New(limits)
}

// New returns an empty timeline at revision Genesis.
func New(limits Limits) *Timeline {
	t := At(Genesis, limits)
	t.floor = 0 // nothing happened before
	return t
}

// At returns an empty timeline at a revision, to be filled with Load. It has no history.
func At(revision int64, limits Limits) *Timeline {
	limits = limits.withDefaults()
	return &Timeline{
		limits:   limits,
		live:     btree.New(degree, func(a, b *storage.Record) bool { return a.Key < b.Key }),
		revision: revision,
		floor:    revision,
		history:  ring{limit: limits.Events},
	}
}

// Load puts a record into a timeline that has no readers yet, without a change of its own.
func (t *Timeline) Load(record storage.Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.live.ReplaceOrInsert(&record)
}

// Snapshot returns the newest state: its revision and its records in key order.
func (t *Timeline) Snapshot() (int64, iter.Seq[storage.Record]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	tree := t.live.Clone()
	return t.revision, func(yield func(storage.Record) bool) {
		tree.Ascend(func(r *storage.Record) bool { return yield(*r) })
	}
}

// Get implements storage.Reader.
func (t *Timeline) Get(ctx context.Context, key string) (storage.Record, error) {
	if err := ctx.Err(); err != nil {
		return storage.Record{}, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return storage.Record{}, storage.ErrClosed
	}
	record := t.lookup(key)
	if record == nil {
		return storage.Record{}, fmt.Errorf("%w: %s", storage.ErrNotFound, key)
	}
	return *record, nil
}

// Revision implements storage.Reader.
func (t *Timeline) Revision(ctx context.Context) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return 0, storage.ErrClosed
	}
	return t.revision, nil
}

// Oldest implements storage.Historian.
func (t *Timeline) Oldest(ctx context.Context) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return 0, storage.ErrClosed
	}
	return max(t.floor, Genesis), nil
}

// List implements storage.Reader.
func (t *Timeline) List(ctx context.Context, prefix string, options storage.ListOptions) (storage.Page, error) {
	if err := ctx.Err(); err != nil {
		return storage.Page{}, err
	}
	tree, revision, err := t.stateAt(options.Revision)
	if err != nil {
		return storage.Page{}, err
	}
	page := storage.Page{Revision: revision}
	start := &storage.Record{Key: max(prefix, options.After)}
	tree.AscendGreaterOrEqual(start, func(r *storage.Record) bool {
		switch {
		case !strings.HasPrefix(r.Key, prefix):
			return false
		case options.After != "" && r.Key <= options.After:
			return true
		case options.Limit > 0 && len(page.Records) == options.Limit:
			page.More = true
			return false
		}
		page.Records = append(page.Records, *r)
		return true
	})
	if page.More {
		t.keep(frozen{revision, tree})
	}
	return page, nil
}

// stateAt returns the index at a revision, 0 meaning the newest, for the caller to read.
func (t *Timeline) stateAt(revision int64) (*index, int64, error) {
	t.mu.Lock()
	if revision == 0 {
		revision = t.revision
	}
	if err := t.readable(revision); err != nil {
		t.mu.Unlock()
		return nil, 0, err
	}
	// The nearest known state at or after the revision.
	from := frozen{t.revision, t.live}
	for _, k := range t.kept {
		if k.revision >= revision && k.revision <= from.revision {
			from = k
		}
	}
	later := make([]Change, from.revision-revision)
	t.history.copyTo(later, revision)
	tree := from.tree.Clone()
	t.mu.Unlock()

	for i := len(later) - 1; i >= 0; i-- {
		if change := later[i]; change.Before != nil {
			tree.ReplaceOrInsert(change.Before)
		} else {
			tree.Delete(change.After)
		}
	}
	return tree, revision, nil
}

// readable says whether the state at a revision, and every change after it, is known.
func (t *Timeline) readable(revision int64) error {
	switch {
	case t.closed:
		return storage.ErrClosed
	case revision > t.revision:
		return fmt.Errorf("%w: asked for %d, the newest is %d", storage.ErrFutureRevision, revision, t.revision)
	case revision < t.floor:
		return fmt.Errorf("%w: asked for %d, the oldest kept is %d", storage.ErrCompacted, revision, t.floor)
	}
	return nil
}

// keep remembers a state for later pages. Beyond the live records and the history it holds only index nodes, because
// states below the floor are dropped.
func (t *Timeline) keep(state frozen) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if state.revision < t.floor {
		return
	}
	for _, k := range t.kept {
		if k.revision == state.revision {
			return
		}
	}
	if len(t.kept) == keptTrees {
		t.kept = append(t.kept[:0], t.kept[1:]...)
	}
	t.kept = append(t.kept, state)
}

// Close ends all streams and fails every later call with storage.ErrClosed.
func (t *Timeline) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	t.announce()
}

func (t *Timeline) lookup(key string) *storage.Record {
	t.probe.Key = key
	record, _ := t.live.Get(&t.probe)
	t.probe.Key = ""
	return record
}

// announce wakes all waiters.
func (t *Timeline) announce() {
	if t.wake != nil {
		close(t.wake)
		t.wake = nil
	}
}
