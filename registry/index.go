package registry

import (
	"sort"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// maxIndexes bounds the indexes of one table: they are made at the first query that can use
// them, for the label keys and fields that clients really select by.
const maxIndexes = 16

// index finds the items of a table that have one value of a label or field.
type index struct {
	value func(Object) (string, bool)
	sets  map[string]map[string]*Item // value → key → item
}

func (x *index) move(from, to *Item) {
	if from != nil {
		if v, ok := x.value(from.Object); ok {
			delete(x.sets[v], from.key)
			if len(x.sets[v]) == 0 {
				delete(x.sets, v)
			}
		}
	}
	if to != nil {
		if v, ok := x.value(to.Object); ok {
			set := x.sets[v]
			if set == nil {
				set = map[string]*Item{}
				x.sets[v] = set
			}
			set[to.key] = to
		}
	}
}

// indexed returns, in key order, the candidates among the newest items for a query, from an
// index that narrows it, and their revision; false when no part of the query can be looked up.
func (t *table) indexed(c *clock, kind *Kind, s Selection) ([]*Item, int64, bool) {
	name, value, get := narrowest(kind, s)
	if get == nil {
		return nil, 0, false
	}
	t.mu.RLock()
	x := t.indexes[name]
	if x == nil {
		t.mu.RUnlock()
		t.mu.Lock()
		if x = t.indexes[name]; x == nil && len(t.indexes) < maxIndexes {
			x = &index{value: get, sets: map[string]map[string]*Item{}}
			t.tree.Ascend(func(i *Item) bool { x.move(nil, i); return true })
			t.indexes[name] = x
		}
		t.mu.Unlock()
		t.mu.RLock()
		x = t.indexes[name]
	}
	if x == nil {
		t.mu.RUnlock()
		return nil, 0, false
	}
	found := make([]*Item, 0, len(x.sets[value]))
	for _, i := range x.sets[value] {
		found = append(found, i)
	}
	revision := t.revision(c)
	t.mu.RUnlock()
	sort.Slice(found, func(a, b int) bool { return found[a].key < found[b].key })
	return found, revision, true
}

// narrowest picks the part of a selection to look up: a field first, then a label.
func narrowest(kind *Kind, s Selection) (name, value string, get func(Object) (string, bool)) {
	if s.Fields != nil && kind.Fields != nil {
		for _, r := range s.Fields.Requirements() {
			if !equals(r.Operator) || r.Field == "metadata.name" || r.Field == "metadata.namespace" {
				continue
			}
			return "field:" + r.Field, r.Value, func(o Object) (string, bool) {
				v, ok := kind.Fields(o)[r.Field]
				return v, ok
			}
		}
	}
	if s.Labels != nil {
		requirements, _ := s.Labels.Requirements()
		for _, r := range requirements {
			if op := r.Operator(); !equals(op) && (op != selection.In || r.Values().Len() != 1) {
				continue
			}
			key := r.Key()
			return "label:" + key, r.Values().List()[0], func(o Object) (string, bool) {
				v, ok := o.GetLabels()[key]
				return v, ok
			}
		}
	}
	return "", "", nil
}

func equals(op selection.Operator) bool {
	return op == selection.Equals || op == selection.DoubleEquals
}

// Selection narrows a list or a watch; the zero value selects everything.
type Selection struct {
	Namespace string // empty: all namespaces
	Labels    labels.Selector
	Fields    fields.Selector
}

// matches tells whether the item's object is selected.
func (s Selection) matches(kind *Kind, i *Item) bool {
	obj := i.Object
	if s.Namespace != "" && obj.GetNamespace() != s.Namespace {
		return false
	}
	if s.Labels != nil && !s.Labels.Empty() && !s.Labels.Matches(labels.Set(obj.GetLabels())) {
		return false
	}
	return s.Fields == nil || s.Fields.Empty() || s.Fields.Matches(i.selectable(kind))
}

// everything tells whether label and field selectors select all.
func (s Selection) everything() bool {
	return (s.Labels == nil || s.Labels.Empty()) && (s.Fields == nil || s.Fields.Empty())
}

// fieldsOf returns all selectable fields of obj.
func fieldsOf(kind *Kind, obj Object) fields.Set {
	set := fields.Set{}
	if kind.Fields != nil {
		for k, v := range kind.Fields(obj) {
			set[k] = v
		}
	}
	set["metadata.name"] = obj.GetName()
	if kind.Namespaced {
		set["metadata.namespace"] = obj.GetNamespace()
	}
	return set
}
