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

// maxViews bounds how many past states are kept for lists that are read in pages.
const maxViews = 8

// view is the state of a table at one revision, as a list looks at it. It does not change.
type view struct {
	tree     *itemTree
	revision int64
	// index, if not nil, has the items that have the value, and maybe others.
	index *indexTree
	by    term
	// all tells that all those are selected.
	all bool
}

// walk calls visit in key order for the items whose key starts with prefix and is greater than or
// equal to from, until visit returns false: for all, or for those that the index knows.
func (v *view) walk(prefix, from string, visit func(*Item) bool) {
	if v.index == nil {
		ascend(v.tree, prefix, from, visit)
		return
	}
	v.index.Ascend(place{v.by.value, max(from, prefix)}, func(e entry) bool {
		return e.value == v.by.value && strings.HasPrefix(e.item.key, prefix) && visit(e.item)
	})
}

// after returns how many items with the prefix have keys after one that is there.
func (v *view) after(prefix, key string) int64 {
	end := v.tree.Len()
	if prefix != "" {
		end = v.tree.Rank(prefix[:len(prefix)-1] + "0") // what follows a slash
	}
	return int64(end - v.tree.Rank(key) - 1)
}

// look returns the newest state, with the index that narrows a selection most.
func (r *Resource) look(s Selection) *view {
	t := r.table
	all, alone := terms(&r.Kind, s)
	x, by := t.narrow(all)
	t.mu.Lock()
	defer t.mu.Unlock()
	v := &view{tree: t.freeze(), revision: t.revision(&r.registry.clock), by: by, all: s.everything()}
	if x != nil {
		v.index, v.all = x.freeze(), alone
	}
	return v
}

// lookAt returns the state at a revision, or false when the history does not reach back. Newer
// changes are undone on copy-on-write clones, so the cost is that of the changes; whoever reads
// on in pages finds the state that the first page left.
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
		v.tree, v.index = kept.tree, kept.index
		t.mu.Unlock()
		return v, true
	}
	v.tree = t.freeze()
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
	return v, true
}

// undo takes changes back, the newest first.
func (v *view) undo(changes []change, x *index) {
	past := &index{}
	if x != nil {
		past = &index{value: x.value, tree: v.index, sizes: map[string]int{}}
	}
	for _, c := range changes {
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

// keep remembers a state for the pages that follow.
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

// kept returns the state at a revision if it is remembered. The caller holds the lock.
func (t *table) kept(revision int64, x *index, by term) *view {
	for _, v := range t.views {
		if v.revision == revision && (x == nil && v.index == nil || x != nil && v.index != nil && v.by.name == by.name) {
			return v
		}
	}
	return nil
}

// dropViews forgets the states that lie before the history: they would keep objects alive that
// nobody can ask for. The caller holds the lock.
func (t *table) dropViews() {
	oldest := max(t.log.oldest, t.compacted)
	t.views = slices.DeleteFunc(t.views, func(v *view) bool { return v.revision < oldest })
}
