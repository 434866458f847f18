package registry

import (
	"strings"
	"sync"

	"github.com/keelson-dev/keelson/storage"
)

// change is one entry of a table's history. prev is nil for a creation; for a deletion, item is the last state
// at the deletion's revision.
type change struct {
	item    *Item
	prev    *Item
	deleted bool
}

// before and after are the states before and after the change; nil means no object.
func (c change) before() *Item { return c.prev }

func (c change) after() *Item {
	if c.deleted {
		return nil
	}
	return c.item
}

// table is the cache of one resource: the newest state in key order, indexes over it and the latest changes.
// Registry.Run is its only writer.
type table struct {
	mu sync.RWMutex
	items
	frozen     *itemTree // a copy-on-write clone of tree, dropped at the next change
	indexes    map[string]*index
	views      []*view // recent ones, of paged lists
	log        history
	latest     int64                 // revision of the newest change
	unreadable map[string]unreadable // by key; none of these is in tree
	// loaded is the revision at which the table was read from the store.
	loaded int64
	// deferred are the changes since a table that is being read began to be read; nil if it is not.
	deferred *[]storage.Event
	// ended: the kind is no longer served, or served from another table, which is replaced.
	ended, replaced bool
	// compacted is the revision before which states are dropped, whether there were changes or not.
	compacted int64
	idle      idleWatches

	building sync.Mutex // held while an index is made
}

func newTable(o *Options, w *waker) *table {
	return &table{
		idle:    idleWatches{waker: w},
		log:     history{most: o.History, mostBytes: o.HistoryBytes},
		items:   items{tree: newTree()},
		indexes: map[string]*index{},
	}
}

// replace sets the table to the state at a revision. It drops the history before: existing watches must list
// again.
func (t *table) replace(s *state, revision int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.items, t.frozen, t.unreadable = s.items, nil, s.unreadable
	for _, x := range t.indexes {
		*x = *newIndex(x.value)
		t.tree.All(func(i *Item) bool { x.move(nil, i); return true })
	}
	t.views = nil
	t.latest, t.loaded = revision, revision
	t.log.restart(revision)
	t.idle.wakeAll()
}

// get returns the newest item at key, or nil.
func (t *table) get(key string) *Item {
	t.mu.RLock()
	defer t.mu.RUnlock()
	i, _ := t.tree.Get(key)
	return i
}

// appeared returns the states in which objects at key were created after a revision. If the history does not reach back, it
// is the newest state of one that was changed after the revision.
func (t *table) appeared(key string, after int64) []*Item {
	t.mu.RLock()
	defer t.mu.RUnlock()
	from, ok := t.log.since(after)
	if !ok {
		if i, _ := t.tree.Get(key); i != nil && i.Revision > after {
			return []*Item{i}
		}
		return nil
	}
	var items []*Item
	for seq := from; seq < t.log.end(); seq++ {
		if c := t.log.entry(seq); c.item.key == key && c.prev == nil {
			items = append(items, c.item)
		}
	}
	return items
}

// put applies a creation or an update. The caller holds the lock.
func (t *table) put(i *Item) {
	delete(t.unreadable, i.key)
	prev, _ := t.tree.Put(i)
	t.pending += countPending(i) - countPending(prev)
	for _, x := range t.indexes {
		x.move(prev, i)
	}
	t.record(change{item: i, prev: prev})
}

// remove applies a deletion; last is the final state at the deletion's revision. The caller holds the lock.
func (t *table) remove(prev, last *Item) {
	t.drop(prev)
	t.record(change{item: last, prev: prev, deleted: true})
}

// drop removes an item from the newest state. The caller holds the lock.
func (t *table) drop(i *Item) {
	t.tree.Delete(i.key)
	t.pending -= countPending(i)
	for _, x := range t.indexes {
		x.move(i, nil)
	}
	t.frozen = nil
}

func (t *table) record(c change) {
	t.latest = c.item.Revision
	t.frozen = nil
	t.log.add(c)
	if len(t.views) > 0 {
		t.dropViews()
	}
	t.idle.notify(c, t.log.end()-1)
}

// snapshot returns an immutable view of the newest state, and its revision.
func (t *table) snapshot(c *clock) (*itemTree, int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.freeze(), t.revision(c)
}

// newest is snapshot without the revision.
func (t *table) newest() *itemTree {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.freeze()
}

// freeze returns a copy-on-write clone of the newest state. The caller holds the lock.
func (t *table) freeze() *itemTree {
	if t.frozen == nil {
		t.frozen = t.tree.Clone()
	}
	return t.frozen
}

// revision returns the revision of the table's state. The caller holds the lock: Run may have applied a change
// that the clock does not show yet.
func (t *table) revision(c *clock) int64 { return max(t.latest, c.read()) }

// ascend calls visit in key order for the items whose key starts with prefix and is at least from, until visit
// returns false.
func ascend(tree *itemTree, prefix, from string, visit func(*Item) bool) {
	if from < prefix {
		from = prefix
	}
	tree.Ascend(from, func(i *Item) bool {
		return strings.HasPrefix(i.key, prefix) && visit(i)
	})
}
