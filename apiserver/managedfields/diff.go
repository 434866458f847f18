package managedfields

import (
	"errors"
	"maps"
	"reflect"
	"slices"
)

// errUntrackable: an object has what its schema does not allow, such as an item without a key.
var errUntrackable = errors.New("fields cannot be told apart")

// differ compares two objects of one kind.
type differ struct {
	*arena
	err error
}

// diff returns the paths that were set and removed between two objects of one shape, but for
// those of without.
func (a *arena) diff(s *shape, old, obj reflect.Value, without []node) ([]node, error) {
	d := differ{arena: a}
	start := len(a.stack)
	l, r := side{old, true}, side{obj, true}
	if s.form == record {
		d.partly(s, l, r, without)
	} else {
		d.value(s, l, r)
	}
	children := a.take(start)
	return a.exclude(children, without), d.err
}

// partly is record for one of which only a part is compared.
func (d *differ) partly(s *shape, l, r side, without []node) mark {
	none, at, fields := true, 0, s.fields()
	for i := range fields {
		f := &fields[i]
		x, y := f.at(l), f.at(r)
		if !x.present && !y.present {
			continue
		}
		none = false
		switch w := d.find(without, &at, f.key); {
		case w == nil:
			d.child(f.key, f.shape, x, y)
		case w.is == 0 && f.shape.form == record && !f.shape.atomic:
			start := len(d.stack)
			is := d.partly(f.shape, x, y, w.children)
			if children := d.take(start); is != 0 || len(children) > 0 {
				d.push(node{f.key, is, children})
			}
		case w.is == 0:
			d.child(f.key, f.shape, x, y)
		}
	}
	return container(l, r, none)
}

// child compares what is below a key.
func (d *differ) child(key string, s *shape, l, r side) { d.marked(key, s, l, r, 0) }

// marked is child for a key that is marked anyhow.
func (d *differ) marked(key string, s *shape, l, r side, is mark) {
	start := len(d.stack)
	is |= d.value(s, l, r)
	children := d.take(start)
	if is != 0 || len(children) > 0 {
		d.push(node{key, is, children})
	}
}

// value compares two values, one of which may be missing, and pushes what differs below them.
func (d *differ) value(s *shape, l, r side) mark {
	switch {
	case s.form == anything:
		return d.unknown(l, r)
	case s.atomic, s.form < record:
		return leaf(l, r, func() bool { return s.equal(l.Value, r.Value) })
	case s.form == record:
		return d.record(s, l, r)
	case s.form == mapping:
		return d.mapping(s, l, r)
	case s.form == document:
		return d.document(l, r)
	}
	return d.list(s, l, r)
}

// leaf compares what has no parts, or moves as a whole.
func leaf(l, r side, equal func() bool) mark {
	switch {
	case !l.present:
		return owned
	case !r.present:
		return removed
	case !equal():
		return owned
	}
	return 0
}

// container is the mark of a place whose parts were compared one by one. Nothing but a null is
// different from an empty container.
func container(l, r side, empty bool) mark {
	return leaf(l, r, func() bool { return !empty || l.null() == r.null() })
}

func (d *differ) record(s *shape, l, r side) mark {
	none, fields := true, s.fields()
	for i := range fields {
		f := &fields[i]
		x, y := f.at(l), f.at(r)
		if x.present || y.present {
			none = false
			d.child(f.key, f.shape, x, y)
		}
	}
	return container(l, r, none)
}

func (d *differ) mapping(s *shape, l, r side) mark {
	names := make([]string, 0, 16)
	if l.IsValid() {
		for entries := l.MapRange(); entries.Next(); {
			names = append(names, entries.Key().String())
		}
	}
	if r.IsValid() {
		for entries := r.MapRange(); entries.Next(); {
			if !l.IsValid() || !l.MapIndex(entries.Key()).IsValid() {
				names = append(names, entries.Key().String())
			}
		}
	}
	slices.Sort(names)
	for _, name := range names {
		key := reflect.ValueOf(name).Convert(s.typ.Key())
		d.child(fieldKey(name), s.elem, valueAt(l, key), valueAt(r, key))
	}
	return container(l, r, len(names) == 0)
}

func valueAt(m side, key reflect.Value) side {
	if m.IsValid() {
		if v := m.MapIndex(key); v.IsValid() {
			return there(v)
		}
	}
	return side{}
}

// item is an item of a list with its key.
type item struct {
	key string
	side
}

func (d *differ) list(s *shape, l, r side) mark {
	if l.IsValid() && r.IsValid() && s.equal(l.Value, r.Value) {
		return 0
	}
	var buf [2][8]item
	before, after := d.items(s, l, buf[0][:0]), d.items(s, r, buf[1][:0])
	none := len(before)+len(after) == 0
	for len(before) > 0 || len(after) > 0 {
		var key string
		if len(after) == 0 || len(before) > 0 && compareKeys(before[0].key, after[0].key) <= 0 {
			key = before[0].key
		} else {
			key = after[0].key
		}
		n, m := count(before, key), count(after, key)
		d.items2(s, key, before[:n], after[:m])
		before, after = before[n:], after[m:]
	}
	return container(l, r, none)
}

// items returns a list's items in the order of their keys.
func (d *differ) items(s *shape, l side, to []item) []item {
	if !l.IsValid() {
		return nil
	}
	for i := range l.Len() {
		v := there(l.Index(i))
		key := s.itemKey(v)
		if key == "" {
			d.err = errUntrackable
			continue
		}
		to = append(to, item{key, v})
	}
	if byKey := func(a, b item) int { return compareKeys(a.key, b.key) }; !slices.IsSortedFunc(to, byKey) {
		slices.SortStableFunc(to, byKey)
	}
	return to
}

func count(items []item, key string) int {
	n := 0
	for n < len(items) && items[n].key == key {
		n++
	}
	return n
}

// items2 compares the items that share a key: one before and one after, unless the list has
// duplicates. Those belong together to whoever set any of them.
func (d *differ) items2(s *shape, key string, before, after []item) {
	var l, r side
	if len(before) == 1 {
		l = before[0].side
	}
	if len(after) > 0 {
		r = after[0].side
	}
	switch {
	case len(before) <= 1 && len(after) <= 1:
		d.child(key, s.elem, l, r)
	case len(before) > 1 && len(after) > 1:
		if !slices.EqualFunc(before, after, func(a, b item) bool { return s.elem.equal(a.Value, b.Value) }) {
			d.push(node{key: key, is: owned})
		}
	case len(before) > 1 && len(after) == 1:
		d.marked(key, s.elem, side{}, r, removed)
	case len(before) > 1:
		d.push(node{key: key, is: removed})
	case len(before) == 1:
		d.marked(key, s.elem, l, side{}, owned)
	default:
		d.push(node{key: key, is: owned})
	}
}

// itemKey returns the key of an item of an associative list, "" if it has none.
func (s *shape) itemKey(v side) string {
	keys := s.keyFields()
	if len(keys) == 0 {
		u := s.elem.scalarOf(v)
		if u.kind == 0 {
			return ""
		}
		return valueKey(u)
	}
	if !v.IsValid() {
		return ""
	}
	var buf [4]member
	members := buf[:0]
	for _, f := range keys {
		switch x := f.at(v); {
		case x.present:
			members = append(members, member{f.name, f.shape.scalarOf(x)})
		case f.standard != nil:
			members = append(members, member{f.name, scalarFrom(f.standard)})
		}
	}
	if len(members) == 0 {
		return ""
	}
	return itemKey(members)
}

// document compares two values of which only that they are JSON objects is known.
func (d *differ) document(l, r side) mark {
	x, y := plain(l.Value), plain(r.Value)
	before, ok1 := x.(map[string]any)
	after, ok2 := y.(map[string]any)
	if !ok1 && x != nil || !ok2 && y != nil {
		d.err = errUntrackable
	}
	l.Value, r.Value = reflect.ValueOf(x), reflect.ValueOf(y)
	return d.maps(before, after, l, r)
}

func (d *differ) maps(before, after map[string]any, l, r side) mark {
	names := slices.AppendSeq(make([]string, 0, len(before)+len(after)), maps.Keys(before))
	for name := range after {
		if _, ok := before[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		x, ok1 := before[name]
		y, ok2 := after[name]
		d.child(fieldKey(name), &shape{form: anything}, side{reflect.ValueOf(x), ok1}, side{reflect.ValueOf(y), ok2})
	}
	return container(l, r, len(names) == 0)
}

// unknown compares two values that may be anything, even different things: objects field by
// field, all else as a whole.
func (d *differ) unknown(l, r side) mark {
	x, y := plain(l.Value), plain(r.Value)
	before, ok1 := x.(map[string]any)
	after, ok2 := y.(map[string]any)
	l.Value, r.Value = reflect.ValueOf(x), reflect.ValueOf(y)
	switch {
	case !ok1 && !ok2:
		return leaf(l, r, func() bool { return equalAny(x, y) })
	case (ok1 || x == nil) && (ok2 || y == nil):
		return d.maps(before, after, l, r)
	}
	return owned | d.maps(before, after, l, r) // an object took the place of something else, or gave way
}
