package registry

import (
	"cmp"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/keelson-dev/keelson/registry/internal/ordered"
)

// maxIndexes bounds the indexes of one table. They are made by the first query that can use them, for the label
// keys and fields that clients actually select by.
const maxIndexes = 16

// place is the position of an item in an index: among those of the same value, in key order, so that items of
// one namespace are adjacent.
type place struct{ value, key string }

type entry struct {
	value string
	item  *Item
}

type indexTree = ordered.Tree[place, entry]

// index finds the items of a table by the value of one label or field.
type index struct {
	value  func(Object) (string, bool)
	tree   *indexTree
	frozen *indexTree     // a copy-on-write clone of tree, dropped at the next change
	sizes  map[string]int // number of items per value
}

func newIndex(value func(Object) (string, bool)) *index {
	return &index{value: value, sizes: map[string]int{}, tree: ordered.New(ordered.Order[place, entry]{
		Key: func(e entry) place { return place{e.value, e.item.key} },
		Compare: func(a, b place) int {
			if c := cmp.Compare(a.value, b.value); c != 0 {
				return c
			}
			return cmp.Compare(a.key, b.key)
		},
	})}
}

// move records that an item replaced another; either may be nil.
func (x *index) move(from, to *Item) {
	x.frozen = nil
	var was, is string
	var had, has bool
	if from != nil {
		was, had = x.value(from.Object)
	}
	if to != nil {
		is, has = x.value(to.Object)
	}
	if had && (!has || was != is) {
		x.tree.Delete(place{was, from.key})
		if x.sizes[was]--; x.sizes[was] == 0 {
			delete(x.sizes, was)
		}
	}
	if has {
		if _, replaced := x.tree.Put(entry{is, to}); !replaced {
			x.sizes[is]++
		}
	}
}

// freeze returns a copy-on-write clone. The caller holds the table's lock for writing.
func (x *index) freeze() *indexTree {
	if x.frozen == nil {
		x.frozen = x.tree.Clone()
	}
	return x.frozen
}

// term is a part of a selection that an index can answer.
type term struct {
	name  string // of the index
	value string
	get   func(Object) (string, bool)
}

// terms returns the parts of a selection that an index can answer. alone means that the only one is the whole
// selection, apart from the namespace.
func terms(kind *Kind, s Selection) (found []term, alone bool) {
	parts := 0
	if s.Fields != nil {
		for _, r := range s.Fields.Requirements() {
			parts++
			if kind.Fields == nil || !equals(r.Operator) || r.Field == "metadata.name" || r.Field == "metadata.namespace" {
				continue
			}
			found = append(found, term{"field:" + r.Field, r.Value, func(o Object) (string, bool) { return kind.Fields(o)[r.Field], true }})
		}
	}
	if s.Labels != nil {
		requirements, selectable := s.Labels.Requirements()
		if !selectable {
			return nil, false // it selects nothing
		}
		for _, r := range requirements {
			parts++
			if op := r.Operator(); !equals(op) && (op != selection.In || r.Values().Len() != 1) {
				continue
			}
			key := r.Key()
			found = append(found, term{"label:" + key, r.Values().List()[0], func(o Object) (string, bool) {
				v, ok := o.GetLabels()[key]
				return v, ok
			}})
		}
	}
	return found, parts == 1 && len(found) == 1
}

// narrow returns the index and the term that leave the fewest items, or nil. It makes an index if the existing
// ones leave many.
func (t *table) narrow(all []term) (*index, term) {
	var best *index
	var by term
	for _, wanted := range all {
		size, enough := 0, false
		t.mu.RLock()
		x := t.indexes[wanted.name]
		if best != nil {
			size = best.sizes[by.value]
			enough = size <= 64+t.tree.Len()/16
		}
		t.mu.RUnlock()
		if x == nil && !enough {
			x = t.makeIndex(wanted)
		}
		if x == nil {
			continue
		}
		t.mu.RLock()
		better := best == nil || x.sizes[wanted.value] < size
		t.mu.RUnlock()
		if better {
			best, by = x, wanted
		}
	}
	return best, by
}

// makeIndex builds an index, or returns nil if there are enough. It holds no lock meanwhile: it starts from a
// snapshot and adds the changes since.
func (t *table) makeIndex(wanted term) *index {
	t.building.Lock()
	defer t.building.Unlock()
	t.mu.Lock()
	if x := t.indexes[wanted.name]; x != nil || len(t.indexes) >= maxIndexes {
		t.mu.Unlock()
		return x
	}
	tree, next := t.freeze(), t.log.end()
	t.mu.Unlock()
	x := newIndex(wanted.get)
	fill := func(i *Item) bool { x.move(nil, i); return true }
	tree.All(fill)
	t.mu.Lock()
	defer t.mu.Unlock()
	if next < t.log.base || len(t.unreadable) > 0 { // records that became unreadable are in no log
		x = newIndex(wanted.get)
		t.tree.All(fill)
	} else {
		for ; next < t.log.end(); next++ {
			c := t.log.entry(next)
			x.move(c.before(), c.after())
		}
	}
	t.indexes[wanted.name] = x
	return x
}

func equals(op selection.Operator) bool {
	return op == selection.Equals || op == selection.DoubleEquals
}

// Selection narrows a list or a watch; the zero value selects everything.
type Selection struct {
	Namespace string // empty: all namespaces
	Labels    labels.Selector
	Fields    fields.Selector // nil selects all
	Pending   bool            // pending objects, too: see Initialization
}

// matches reports whether the item's object is selected.
func (s Selection) matches(kind *Kind, i *Item) bool {
	obj := i.Object
	if i.pending && !s.Pending {
		return false
	}
	if s.Namespace != "" && obj.GetNamespace() != s.Namespace {
		return false
	}
	if s.Labels != nil && !s.Labels.Empty() && !s.Labels.Matches(labels.Set(obj.GetLabels())) {
		return false
	}
	return s.Fields == nil || s.Fields.Empty() || s.Fields.Matches(i.selectable(kind))
}

// everything reports whether the label and field selectors select every object.
func (s Selection) everything() bool {
	return (s.Labels == nil || s.Labels.Empty()) && (s.Fields == nil || s.Fields.Empty())
}

// fieldList holds the selectable fields of an object. It implements fields.Fields in a fraction of a map's
// memory.
type fieldList []fieldValue

type fieldValue struct{ field, value string }

// Has implements fields.Fields.
func (l fieldList) Has(field string) bool {
	for i := range l {
		if l[i].field == field {
			return true
		}
	}
	return false
}

// Get implements fields.Fields.
func (l fieldList) Get(field string) string {
	for i := range l {
		if l[i].field == field {
			return l[i].value
		}
	}
	return ""
}

// fieldsOf returns all selectable fields of obj.
func fieldsOf(kind *Kind, obj Object) fieldList {
	var set fields.Set
	if kind.Fields != nil {
		set = kind.Fields(obj)
	}
	list := append(make(fieldList, 0, len(set)+2), fieldValue{"metadata.name", obj.GetName()})
	if kind.Namespaced {
		list = append(list, fieldValue{"metadata.namespace", obj.GetNamespace()})
	}
	for field, value := range set {
		if field != "metadata.name" && field != "metadata.namespace" {
			list = append(list, fieldValue{field, value})
		}
	}
	return list
}
