package timeline

import (
	"context"
	"fmt"
	"slices"

	"github.com/keelson-dev/keelson/storage"
)

// Change is one accepted write: the record before it, nil if there was none, and after it, nil if it was deleted.
type Change struct {
	Before, After *storage.Record
	Revision      int64
}

// Key returns the key that was written.
func (c Change) Key() string {
	if c.After != nil {
		return c.After.Key
	}
	return c.Before.Key
}

// cost estimates the bytes that the history keeps alive for a change.
func (c Change) cost() int64 {
	n := 0
	if c.Before != nil {
		n += recordBytes + len(c.Before.Key) + len(c.Before.Value)
	}
	if c.After != nil {
		n += recordBytes + len(c.After.Key) + len(c.After.Value)
	}
	return int64(n)
}

const recordBytes = 64

// Verb is the kind of a write.
type Verb uint8

// The verbs of storage.Writer.
const (
	Create Verb = iota + 1
	Update
	Delete
)

// Write is a request to change one key.
type Write struct {
	Verb     Verb
	Key      string
	Value    []byte
	Expected int64 // the revision to replace or delete
}

// decide holds the rules of storage.Writer: it returns the change that a write makes to a record (nil if there is
// none), or why it is refused.
func (w Write) decide(before *storage.Record, revision int64) (Change, error) {
	change := Change{Before: before, Revision: revision}
	switch {
	case w.Key == "":
		return Change{}, storage.ErrEmptyKey
	case w.Verb == Create && before != nil:
		return Change{}, fmt.Errorf("%w: %s", storage.ErrExists, w.Key)
	case w.Verb != Create && before == nil:
		return Change{}, fmt.Errorf("%w: %s", storage.ErrNotFound, w.Key)
	case w.Verb != Create && before.Revision != w.Expected:
		return Change{}, fmt.Errorf("%w: %s is at %d, not %d", storage.ErrConflict, w.Key, before.Revision, w.Expected)
	case w.Verb != Delete:
		change.After = newRecord(w.Key, w.Value, before, revision)
	}
	return change, nil
}

func newRecord(key string, value []byte, before *storage.Record, revision int64) *storage.Record {
	if before != nil {
		key = before.Key // one copy of the key for all its versions
	}
	if value == nil {
		value = []byte{} // nil is how events say that there was no record
	}
	return &storage.Record{Key: key, Value: value, Revision: revision}
}

// Do decides and applies one write.
func (t *Timeline) Do(ctx context.Context, w Write) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return 0, storage.ErrClosed
	}
	change, err := w.decide(t.lookup(w.Key), t.revision+1)
	if err != nil {
		return 0, err
	}
	t.apply(change)
	t.announce()
	return change.Revision, nil
}

// Draft is a sequence of writes decided one after the other and invisible before Commit.
type Draft struct {
	base    *Timeline
	changes []Change
	latest  map[string]*storage.Record // the draft's record of a key, nil when it deleted it
	next    int64
}

// Draft starts an empty draft on the newest state. The timeline must not change before the
// draft is committed or dropped.
func (t *Timeline) Draft() *Draft {
	t.mu.Lock()
	defer t.mu.Unlock()
	return &Draft{base: t, latest: map[string]*storage.Record{}, next: t.revision + 1}
}

// Add decides a write on top of those added before and returns the revision it will have.
func (d *Draft) Add(w Write) (int64, error) {
	before, known := d.latest[w.Key]
	if !known {
		d.base.mu.Lock()
		before = d.base.lookup(w.Key)
		d.base.mu.Unlock()
	}
	change, err := w.decide(before, d.next)
	if err != nil {
		return 0, err
	}
	d.latest[w.Key] = change.After
	d.changes = append(d.changes, change)
	d.next++
	return change.Revision, nil
}

// Changes returns the accepted writes in order of revision.
func (d *Draft) Changes() []Change { return d.changes }

// Commit makes the changes of a draft visible, all at once.
func (t *Timeline) Commit(d *Draft) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, change := range d.changes {
		t.apply(change)
	}
	t.announce()
}

// Replay applies a change read back from a log, at the next revision. It fails when the change
// cannot have been made to this state.
func (t *Timeline) Replay(event storage.EventType, key string, value []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	change := Change{Before: t.lookup(key), Revision: t.revision + 1}
	switch {
	case event == storage.Put:
		change.After = newRecord(key, value, change.Before, change.Revision)
	case change.Before == nil:
		return fmt.Errorf("revision %d deletes %q, which is not there", change.Revision, key)
	}
	t.apply(change)
	return nil
}

// apply puts a change into the index and the history.
func (t *Timeline) apply(change Change) {
	if change.After != nil {
		t.live.ReplaceOrInsert(change.After)
	} else {
		t.live.Delete(change.Before)
	}
	t.revision = change.Revision

	if t.history.count == t.limits.Events {
		t.forgetOldest()
	}
	t.history.push(change)
	t.bytes += change.cost()
	for t.bytes > t.limits.Bytes && t.history.count > 1 {
		t.forgetOldest()
	}
}

func (t *Timeline) forgetOldest() {
	oldest := t.history.pop()
	t.bytes -= oldest.cost()
	t.floor = oldest.Revision
	if len(t.kept) > 0 {
		t.kept = slices.DeleteFunc(t.kept, func(k frozen) bool { return k.revision < t.floor })
	}
}
