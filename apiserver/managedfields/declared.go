package managedfields

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// declared is how objects merge that are JSON, by the schema that was declared for them.
type declared struct {
	typed.ParseableType
	shape *shape // which has nothing but this
}

// diff returns the paths that were set and removed between two objects, but for those of without.
func (d *declared) diff(a *arena, live, obj Object, without []node) []node {
	c, start := comparison{arena: a, declared: d}, len(a.stack)
	c.value(&d.TypeRef, held{content(live), true}, held{content(obj), true})
	return a.exclude(a.take(start), without)
}

func content(obj Object) map[string]any { return obj.(runtime.Unstructured).UnstructuredContent() }

// check refuses an object that does not have the form that the schema tells, which excludes that there are items with the same
// key, unless duplicates are allowed.
func (d *declared) check(obj Object, duplicates bool) error {
	if d.fits(&d.TypeRef, content(obj), duplicates) {
		return nil
	}
	return d.misfit(content(obj))
}

// describe names an object in errors.
func describe(obj Object, gvk schema.GroupVersionKind) string {
	return fmt.Sprintf("%s/%s; %v", obj.GetNamespace(), obj.GetName(), gvk)
}

// misfit has the library say what is wrong with an object.
func (d *declared) misfit(content map[string]any) error {
	if _, err := d.FromUnstructured(content, typed.AllowDuplicates); err != nil {
		return err
	}
	if _, err := d.FromUnstructured(content); err != nil {
		return err
	}
	return errUntrackable
}

// atom returns what a value may be.
func (d *declared) atom(ref *smd.TypeRef) smd.Atom {
	if ref.NamedType == nil && ref.ElementRelationship == nil {
		return ref.Inlined
	}
	a, _ := d.Schema.Resolve(*ref) // all names are of types that there are
	return a
}

// as returns which of the things that a value may be it is. A null may be any of them.
func as(a smd.Atom, v any) smd.Atom {
	switch v.(type) {
	case nil:
		return a
	case map[string]any:
		if a.Map != nil {
			return smd.Atom{Map: a.Map}
		}
	case []any:
		if a.List != nil {
			return smd.Atom{List: a.List}
		}
	default:
		if a.Scalar != nil {
			return smd.Atom{Scalar: a.Scalar}
		}
	}
	return a
}

// fieldOf returns what a field of an object is, or nil if there must be no such field.
func fieldOf(m *smd.Map, name string) *smd.TypeRef {
	if f, ok := m.FindField(name); ok {
		return &f.Type
	}
	if m.ElementType == (smd.TypeRef{}) {
		return nil
	}
	return &m.ElementType
}

// fits tells whether a value has the form that the schema tells.
func (d *declared) fits(ref *smd.TypeRef, v any, duplicates bool) bool {
	a := as(d.atom(ref), v)
	switch {
	case a.Map != nil:
		m, ok := v.(map[string]any)
		for name, value := range m {
			if ref := fieldOf(a.Map, name); ref == nil || !d.fits(ref, value, duplicates) {
				return false
			}
		}
		return ok || v == nil
	case a.Scalar != nil:
		return v == nil || scalarFits(*a.Scalar, v)
	case a.List != nil:
		items, ok := v.([]any)
		return (ok || v == nil) && d.itemsFit(a.List, items, duplicates)
	}
	return false
}

func (d *declared) itemsFit(l *smd.List, items []any, duplicates bool) bool {
	var seen map[string]bool
	for _, item := range items {
		if l.ElementRelationship == smd.Associative {
			key := d.itemKey(l, item)
			if key == "" || seen[key] {
				return false
			}
			if !duplicates {
				if seen == nil {
					seen = make(map[string]bool, len(items))
				}
				seen[key] = true
			}
		}
		if !d.fits(&l.ElementType, item, duplicates) {
			return false
		}
	}
	return true
}

func scalarFits(s smd.Scalar, v any) bool {
	switch v.(type) {
	case string:
		return s == smd.String || s == smd.Untyped
	case bool:
		return s == smd.Boolean || s == smd.Untyped
	case map[string]any, []any:
		return false
	}
	return s == smd.Numeric || s == smd.Untyped
}

// itemKey returns the key of an item of an associative list, "" if it has none.
func (d *declared) itemKey(l *smd.List, item any) string {
	if len(l.Keys) == 0 {
		s := scalarFrom(item)
		if s.kind == null {
			return ""
		}
		return valueKey(s)
	}
	content, ok := item.(map[string]any)
	of := d.atom(&l.ElementType).Map
	if !ok || of == nil {
		return ""
	}
	var buf [4]member
	members := buf[:0]
	for _, name := range l.Keys {
		value, ok := content[name]
		if !ok {
			f, _ := of.FindField(name)
			value, ok = f.Default, f.Default != nil
		}
		if ok {
			members = append(members, member{name, keyScalar(value)})
		}
	}
	if len(members) == 0 {
		return ""
	}
	slices.SortStableFunc(members, func(a, b member) int { return cmp.Compare(a.name, b.name) })
	return itemKey(members)
}

// keyScalar is scalarFrom for what may be no scalar, too.
func keyScalar(v any) scalar {
	switch v.(type) {
	case map[string]any, []any:
		return scalar{kind: 'x', other: v}
	}
	return scalarFrom(v)
}

// comparison compares two objects of one schema.
type comparison struct {
	*arena
	*declared
}

// held is what one of two compared objects has at a place.
type held struct {
	any
	present bool
}

// child compares what is below a key, which is marked anyhow.
func (c *comparison) child(key string, ref *smd.TypeRef, l, r held, is mark) {
	start := len(c.stack)
	is |= c.value(ref, l, r)
	children := c.take(start)
	if is != 0 || len(children) > 0 {
		c.push(node{key, is, children})
	}
}

// value compares two values, one of which may be missing, and pushes what differs below them. If one is another thing than
// the other, both are compared with nothing, in the order of their keys.
func (c *comparison) value(ref *smd.TypeRef, l, r held) (is mark) {
	a := c.atom(ref)
	var before, after smd.Atom
	if l.present {
		before = first(as(a, l.any))
	}
	if r.present {
		after = first(as(a, r.any))
	}
	if m := cmp.Or(before.Map, after.Map); m != nil {
		is |= c.object(m, l, r)
	}
	if before.Scalar != nil || after.Scalar != nil {
		is |= whole(l, r)
	}
	if list := cmp.Or(before.List, after.List); list != nil {
		is |= c.list(list, l, r)
	}
	return is
}

// first returns the one thing that a value is taken for.
func first(a smd.Atom) smd.Atom {
	switch {
	case a.Map != nil:
		return smd.Atom{Map: a.Map}
	case a.Scalar != nil:
		return smd.Atom{Scalar: a.Scalar}
	}
	return a
}

// whole compares what has no parts, or moves as a whole.
func whole(l, r held) mark {
	if l.present && r.present && !equalAny(l.any, r.any) {
		return owned
	}
	return parted(l, r)
}

// parted is the mark of a place whose parts were compared.
func parted(l, r held) mark {
	switch {
	case !l.present:
		return owned
	case !r.present:
		return removed
	}
	return 0
}

func (c *comparison) object(m *smd.Map, l, r held) mark {
	before, _ := l.any.(map[string]any)
	after, _ := r.any.(map[string]any)
	if m.ElementRelationship == smd.Atomic || len(before)+len(after) == 0 {
		return whole(l, r)
	}
	names := make([]string, 0, len(before)+len(after))
	for name := range before {
		names = append(names, name)
	}
	for name := range after {
		if _, ok := before[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		x, ok1 := before[name]
		y, ok2 := after[name]
		if ref := fieldOf(m, name); ref != nil {
			c.child(fieldKey(name), ref, held{x, ok1}, held{y, ok2}, 0)
		}
	}
	return parted(l, r)
}

// keyed is an item of a list with its key.
type keyed struct {
	key string
	any
}

func (c *comparison) list(list *smd.List, l, r held) mark {
	x, _ := l.any.([]any)
	y, _ := r.any.([]any)
	if list.ElementRelationship == smd.Atomic || len(x)+len(y) == 0 {
		return whole(l, r)
	}
	if len(x) == len(y) && equalAny(x, y) {
		return parted(l, r)
	}
	before, after := c.items(list, x), c.items(list, y)
	for len(before) > 0 || len(after) > 0 {
		var key string
		if len(after) == 0 || len(before) > 0 && compareKeys(before[0].key, after[0].key) <= 0 {
			key = before[0].key
		} else {
			key = after[0].key
		}
		n, m := same(before, key), same(after, key)
		c.sharing(key, &list.ElementType, before[:n], after[:m])
		before, after = before[n:], after[m:]
	}
	return parted(l, r)
}

// items returns a list's items in the order of their keys.
func (c *comparison) items(list *smd.List, of []any) []keyed {
	items := make([]keyed, len(of))
	for i := range of {
		items[i] = keyed{c.itemKey(list, of[i]), of[i]}
	}
	slices.SortStableFunc(items, func(a, b keyed) int { return compareKeys(a.key, b.key) })
	return items
}

// same counts the items at the beginning that have a key.
func same(items []keyed, key string) int {
	n := 0
	for n < len(items) && items[n].key == key {
		n++
	}
	return n
}

// sharing compares the items that share a key, as items2 does.
func (c *comparison) sharing(key string, ref *smd.TypeRef, before, after []keyed) {
	var l, r held
	if len(before) > 0 {
		l = held{before[0].any, true}
	}
	if len(after) > 0 {
		r = held{after[0].any, true}
	}
	switch {
	case len(before) <= 1 && len(after) <= 1:
		c.child(key, ref, l, r, 0)
	case len(before) > 1 && len(after) > 1:
		if !slices.EqualFunc(before, after, func(a, b keyed) bool { return equalAny(a.any, b.any) }) {
			c.push(node{key: key, is: owned})
		}
	case len(before) > 1 && len(after) == 1:
		c.child(key, ref, held{}, r, removed)
	case len(before) > 1:
		c.push(node{key: key, is: removed})
	case len(before) == 1:
		c.child(key, ref, l, held{}, owned)
	default:
		c.push(node{key: key, is: owned})
	}
}

// reconcile makes owners of parts of what moves as a whole, from a time when it did not, owners of the whole.
func (d *declared) reconcile(a *arena, set []node) []node {
	if m := d.atom(&d.TypeRef).Map; m != nil && m.ElementRelationship != smd.Atomic && !deduced(m) {
		return d.reconcileBelow(a, set, m, nil)
	}
	return set
}

// reconcileBelow does so below an object or else a list.
func (d *declared) reconcileBelow(a *arena, set []node, m *smd.Map, l *smd.List) []node {
	start, unchanged := len(a.stack), true
	for _, n := range set {
		var part smd.Atom
		if ref := below(m, l, n.key); len(n.children) > 0 && ref != nil {
			part = first(d.atom(ref))
		}
		switch children := n.children; {
		case part.Map != nil && deduced(part.Map):
		case part.Map != nil && part.Map.ElementRelationship == smd.Atomic, part.List != nil && part.List.ElementRelationship == smd.Atomic:
			n.is, n.children, unchanged = owned, nil, false
		case part.Map != nil || part.List != nil:
			n.children = d.reconcileBelow(a, children, part.Map, part.List)
			unchanged = unchanged && identical(children, n.children)
		}
		a.push(n)
	}
	if unchanged {
		a.stack = a.stack[:start]
		return set
	}
	return a.take(start)
}

// below returns what is below a key of an object or else a list, or nil.
func below(m *smd.Map, l *smd.List, key string) *smd.TypeRef {
	if m == nil {
		return &l.ElementType
	}
	if name, ok := strings.CutPrefix(key, "f:"); ok {
		if plainText(name) {
			return fieldOf(m, name)
		}
		if e, err := pathElement(key); err == nil && e.FieldName != nil {
			return fieldOf(m, *e.FieldName)
		}
	}
	if m.ElementType == (smd.TypeRef{}) {
		return nil
	}
	return &m.ElementType
}

// deduced tells whether the library takes an object for one of which nothing is known, and leaves it alone.
func deduced(m *smd.Map) bool {
	if of := m.ElementType; m.Fields != nil {
		return false
	} else if of.NamedType != nil {
		return *of.NamedType == freeName
	}
	scalar := m.ElementType.Inlined.Scalar
	return scalar != nil && *scalar == smd.Untyped
}
