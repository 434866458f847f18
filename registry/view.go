package registry

import (
	"cmp"
	"slices"
	"strings"

	"github.com/keelson-dev/keelson/registry/internal/ordered"
)

type itemTree = ordered.Tree[string, *Item]

func newTree() *itemTree {
	return ordered.New(ordered.Order[string, *Item]{Key: func(i *Item) string { return i.key }, Compare: cmp.Compare[string]})
}

// items are objects in key order.
type items struct {
	tree    *itemTree
	pending int // how many of them are pending: see Initialization
}

// maxViews bounds how many past states are kept for paged lists.
const maxViews = 8

// view is the immutable state of a table at one revision, for a list.
type view struct {
	items
	revision int64
	// index, if not nil, has the items with the value by, and maybe others.
	index *indexTree
	by    term
	// all means that walk visits only selected items.
	all bool
}

// complete reports whether a selection may see all items.
func (v *view) complete(s Selection) bool { return s.Pending || v.pending == 0 }

// walk calls visit in key order for the items whose key starts with prefix and is at least from, until visit
// returns false. With an index it visits only the items there.
func (v *view) walk(prefix, from string, visit func(*Item) bool) {
	if v.index == nil {
		ascend(v.tree, prefix, from, visit)
		return
	}
	v.index.Ascend(place{v.by.value, max(from, prefix)}, func(e entry) bool {
		return e.value == v.by.value && strings.HasPrefix(e.item.key, prefix) && visit(e.item)
	})
}

// after returns how many items with the prefix have keys greater than that of an existing item.
func (v *view) after(prefix, key string) int64 {
	end := v.tree.Len()
	if prefix != "" {
		end = v.tree.Rank(prefix[:len(prefix)-1] + "0") // the character after a slash
	}
	return int64(end - v.tree.Rank(key) - 1)
}

// look returns the newest state, with the most selective index for the selection.
func (r *Resource) look(s Selection) *view {
	t := r.table
	all, alone := terms(&r.Kind, s)
	x, by := t.narrow(all)
	t.mu.Lock()
	defer t.mu.Unlock()
	v := &view{items: items{t.freeze(), t.pending}, revision: t.revision(&r.registry.clock), by: by, all: s.everything()}
	if x != nil {
		v.index, v.all = x.freeze(), alone
	}
	v.all = v.all && v.complete(s)
	return v
}

// lookAt returns the state at a revision, or false if the history does not reach back. It undoes newer changes
// on copy-on-write clones, which costs as much as there are changes; the following pages of a list find the
// state that the first page kept.
func (r *Resource) lookAt(revision int64, s Selection) (*view, bool) {
	t := r.table
	all, alone := terms(&r.Kind, s)
	x, by := t.narrow(all)
	t.mu.Lock()
	from, ok := t.log.since(revision)
	if !ok || revision < t.compacted {
		t.mu.Unlock()
		return nil, false
	}
	v := &view{revision: revision, by: by, all: s.everything()}
	if x != nil {
		v.all = alone
	}
	if kept := t.kept(revision, x, by); kept != nil {
		v.items, v.index = kept.items, kept.index
		v.all = v.all && v.complete(s)
		t.mu.Unlock()
		return v, true
	}
	v.items = items{t.freeze(), t.pending}
	if x != nil {
		v.index = x.freeze()
	}
	undo := make([]change, 0, t.log.end()-from)
	for seq := t.log.end() - 1; seq >= from; seq-- {
		undo = append(undo, t.log.entry(seq))
	}
	if len(undo) > 0 {
		v.tree = v.tree.Clone()
		if x != nil {
			v.index = v.index.Clone()
		}
	}
	t.mu.Unlock()
	v.undo(undo, x)
	v.all = v.all && v.complete(s)
	return v, true
}

// undo reverts changes, the newest first.
func (v *view) undo(changes []change, x *index) {
	past := &index{}
	if x != nil {
		past = &index{value: x.value, tree: v.index, sizes: map[string]int{}}
	}
	for _, c := range changes {
		v.pending += countPending(c.before()) - countPending(c.after())
		if before := c.before(); before == nil {
			v.tree.Delete(c.item.key)
		} else {
			v.tree.Put(before)
		}
		if x != nil {
			past.move(c.after(), c.before())
		}
	}
}

// keep remembers a state for the following pages.
func (t *table) keep(v *view) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, k := range t.views {
		if k.revision == v.revision && k.by.name == v.by.name && (k.index == nil) == (v.index == nil) {
			copy(t.views[1:i+1], t.views[:i])
			t.views[0] = k
			return
		}
	}
	t.views = slices.Insert(t.views, 0, v)
	if len(t.views) > maxViews {
		clear(t.views[maxViews:])
		t.views = t.views[:maxViews]
	}
	t.dropViews()
}

// kept returns the state at a revision if it was kept. The caller holds the lock.
func (t *table) kept(revision int64, x *index, by term) *view {
	for _, v := range t.views {
		if v.revision == revision && (x == nil && v.index == nil || x != nil && v.index != nil && v.by.name == by.name) {
			return v
		}
	}
	return nil
}

// dropViews drops the states from before the history: nobody can ask for them, and they would keep objects in
// memory. The caller holds the lock.
func (t *table) dropViews() {
	oldest := max(t.log.oldest, t.compacted)
	t.views = slices.DeleteFunc(t.views, func(v *view) bool { return v.revision < oldest })
}
