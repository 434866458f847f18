package strategicpatch

import (
	"container/heap"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// list is how the list in a field merges.
type list struct {
	items    strategicpatch.LookupPatchMeta
	strategy string
	key      string // the field that identifies its items; empty for scalars
}

func lookUp(schema strategicpatch.LookupPatchMeta, field string) (list, error) {
	items, meta, err := schema.LookupPatchMetadataForSlice(field)
	if err != nil {
		return list{}, err
	}
	strategy, err := strategyOf(meta)
	return list{items: items, strategy: strategy, key: meta.GetPatchMergeKey()}, err
}

// ordered merges the lists whose order a patch sets, and removes them from the patch.
func (m *merging) ordered(into, changes map[string]any, schema strategicpatch.LookupPatchMeta) error {
	for _, key := range slices.Sorted(maps.Keys(changes)) {
		if !strings.HasPrefix(key, orderPrefix) {
			continue
		}
		order, ok := changes[key].([]any)
		if !ok {
			return mergepatch.ErrBadArgType(order, changes[key])
		}
		delete(changes, key)
		field, err := target(key, orderPrefix, mergepatch.ErrBadPatchFormatForSetElementOrderList)
		if err != nil {
			return err
		}
		if err := m.orderedField(into, changes, field, order, schema); err != nil {
			return err
		}
	}
	return nil
}

func (m *merging) orderedField(into, changes map[string]any, field string, order []any, schema strategicpatch.LookupPatchMeta) error {
	now, found, err := listIn(into, field)
	if err != nil {
		return err
	}
	change, changed, err := listIn(changes, field)
	if err != nil {
		return err
	}
	l, err := lookUp(schema, field)
	if err != nil {
		return err
	}
	if err := l.inOrder(change, order); err != nil {
		return err
	}
	merged := now
	switch {
	case !found && !changed:
		return nil
	case !found:
		kept, _ := withoutDirectives(change)
		merged = kept.([]any)
	case changed:
		if merged, err = m.merge(l, now, change, false); err != nil {
			return err
		}
	}
	fromPatch, fromServer, err := m.partition(l, merged, order)
	if err != nil {
		return err
	}
	kind, err := kindOf(now, change)
	if err != nil {
		return err
	}
	into[field], err = m.arrange(l, kind, parts{fromPatch, order, fromServer, now})
	delete(changes, field)
	return err
}

func listIn(of map[string]any, field string) (l []any, found bool, err error) {
	value, found := of[field]
	if !found {
		return nil, false, nil
	}
	l, ok := value.([]any)
	if !ok {
		return nil, true, mergepatch.ErrBadArgType(l, value)
	}
	return l, true, nil
}

// inOrder reports whether the items of a patch are in the order that it sets.
func (l list) inOrder(change, order []any) error {
	if len(order) == 0 || len(change) == 0 {
		return nil
	}
	items := change
	if l.key != "" {
		var err error
		if items, _, err = splitDeleted(change); err != nil {
			return err
		}
	}
	i, at := 0, 0
	for i < len(items) && at < len(order) {
		if item, ok := items[i].(map[string]any); ok {
			if _, ok := item[directive]; ok {
				i++
				continue
			}
		}
		same, err := l.same(items[i], order[at])
		if err != nil {
			return err
		}
		if same {
			i++
		}
		at++
	}
	if i < len(items) {
		return fmt.Errorf("The order in patch list:\n%v\n doesn't match %s list:\n%v\n", change, orderPrefix, order) //nolint:revive,staticcheck // upstream's words
	}
	return nil
}

// same reports whether two items have the same identity.
func (l list) same(a, b any) (bool, error) {
	if l.key == "" {
		return equal(a, b)
	}
	x, err := l.keyOf(a)
	if err != nil {
		return false, err
	}
	y, err := l.keyOf(b)
	if err != nil {
		return false, err
	}
	return equal(x, y)
}

// keyOf returns the key of an item, which may be any value.
func (l list) keyOf(item any) (any, error) {
	object, ok := item.(map[string]any)
	if !ok {
		return nil, mergepatch.ErrBadArgType(object, item)
	}
	key, ok := object[l.key]
	if !ok {
		return nil, mergepatch.ErrNoMergeKey(object, l.key)
	}
	return key, nil
}

func hashable(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

func equal(a, b any) (bool, error) {
	if !hashable(a) && !hashable(b) {
		return false, ErrUnmergeable
	}
	return hashable(a) && hashable(b) && a == b, nil
}

// splitDeleted separates the items that a patch deletes.
func splitDeleted(items []any) (kept, deleted []any, err error) {
	for _, v := range items {
		item, ok := v.(map[string]any)
		if !ok {
			return nil, nil, mergepatch.ErrBadArgType(item, v)
		}
		if item[directive] == "delete" {
			deleted = append(deleted, v)
		} else {
			kept = append(kept, v)
		}
	}
	return kept, deleted, nil
}

// kindOf is the kind of the items of lists, which must have one.
func kindOf(lists ...[]any) (reflect.Kind, error) {
	var of reflect.Type
	first := true
	for _, l := range lists {
		for _, v := range l {
			t := reflect.TypeOf(v)
			switch {
			case first && t == nil:
				return 0, ErrUnmergeable
			case first && t.Kind() == reflect.Slice:
				return 0, mergepatch.ErrNoListOfLists
			case first:
				of, first = t, false
			case t != of:
				return 0, fmt.Errorf("list element types are not identical: %v", fmt.Sprint(lists))
			}
		}
	}
	if first {
		return 0, errors.New("no elements in any of the given slices")
	}
	return of.Kind(), nil
}

// merge merges a list of a patch into one of the object, whose memory it may use.
func (m *merging) merge(l list, now, change []any, deletes bool) ([]any, error) {
	if l.strategy != "merge" && !deletes {
		return change, nil
	}
	if len(now)+len(change) == 0 {
		return now, nil
	}
	kind, err := kindOf(now, change)
	if err != nil {
		return nil, err
	}
	var merged []any
	switch {
	case kind != reflect.Map && deletes:
		return without(now, change), nil
	case kind != reflect.Map:
		merged = m.deduplicate(append(now, change...))
	case l.key == "":
		return nil, fmt.Errorf("cannot merge lists without merge key for %s", l.items.Name())
	default:
		if now, change, err = m.direct(l, now, change); err != nil {
			return nil, err
		}
		if merged, err = m.items(l, now, change); err != nil {
			return nil, err
		}
	}
	fromPatch, fromServer, err := m.partition(l, merged, change)
	if err != nil {
		return nil, err
	}
	return m.arrange(l, kind, parts{fromPatch, change, fromServer, now})
}

// direct carries out the directives among the items of a patch, and returns what is left of both lists.
func (m *merging) direct(l list, now, change []any) (kept, rest []any, err error) {
	rest = []any{}
	var deleted []any
	replace := false
	for _, v := range change {
		item := v.(map[string]any)
		what, ok := item[directive]
		if !ok {
			rest = append(rest, v)
			continue
		}
		switch what {
		case "delete":
			key, err := l.keyOf(item)
			if err != nil {
				return nil, nil, err
			}
			if !hashable(key) {
				return nil, nil, ErrUnmergeable
			}
			deleted = append(deleted, key)
		case "replace":
			replace = true
		case "merge":
			return nil, nil, errors.New("merging lists cannot yet be specified in the patch")
		default:
			return nil, nil, mergepatch.ErrBadPatchType(what, item)
		}
	}
	if replace {
		return rest, nil, nil
	}
	return m.delete(l, now, deleted), rest, nil
}

// delete removes the items with the given keys from a list, in place. The freed places hold what removing one by one
// would leave there, because the whole memory counts if the patch sets an order.
func (m *merging) delete(l list, now, keys []any) []any {
	if len(keys) == 0 {
		return now
	}
	at := map[any][]int{}
	for i, v := range now {
		m.steps++
		if key, ok := v.(map[string]any)[l.key]; ok && hashable(key) {
			at[key] = append(at[key], i)
		}
	}
	gone, last := make([]bool, len(now)), len(now)-1
	var left []any
	for _, key := range keys {
		for _, i := range at[key] {
			m.steps++
			for gone[last] {
				last--
			}
			left = append(left, now[last])
			gone[i] = true
		}
		delete(at, key)
	}
	kept := now[:0]
	for i, v := range now {
		if !gone[i] {
			kept = append(kept, v)
		}
	}
	for i, v := range left {
		now[len(now)-1-i] = v
	}
	return kept
}

// items merges the items of a patch into those of the object with the same keys, and appends the others.
func (m *merging) items(l list, now, change []any) ([]any, error) {
	if len(change) == 0 {
		return now, nil
	}
	at := make(map[any]int, len(now))
	for i, v := range now {
		m.steps++
		key, ok := v.(map[string]any)[l.key]
		if !ok || !hashable(key) {
			continue
		}
		if _, ok := at[key]; !ok {
			at[key] = i
		}
	}
	for _, v := range change {
		item := v.(map[string]any)
		key, err := l.keyOf(item)
		if err != nil {
			return nil, err
		}
		if !hashable(key) {
			return nil, ErrUnmergeable
		}
		m.steps++
		i, found := at[key]
		if !found {
			at[key] = len(now)
			now = append(now, v)
			continue
		}
		if now[i], err = m.object(now[i].(map[string]any), item, l.items); err != nil {
			return nil, err
		}
	}
	return now, nil
}

// without returns the scalars of a list that are not deleted.
func without(now, deleted []any) []any {
	gone, kept := map[any]bool{}, make([]any, 0, len(now))
	for _, v := range deleted {
		gone[v] = true
	}
	for _, v := range now {
		if !gone[v] {
			kept = append(kept, v)
		}
	}
	return kept
}

// deduplicate removes repeated scalars from a list, in place, by moving the last one into each freed place.
func (m *merging) deduplicate(s []any) []any {
	at := make(map[any]*indices, len(s))
	for i, v := range s {
		m.steps++
		if at[v] == nil {
			at[v] = &indices{}
		}
		*at[v] = append(*at[v], i) // ascending, so a valid heap
	}
	for i := 0; i < len(s); i++ {
		for same := at[s[i]]; len(*same) > 0; {
			m.steps++
			next := heap.Pop(same).(int)
			if next <= i || next >= len(s) || s[next] != s[i] {
				continue // another one is there by now
			}
			last := len(s) - 1
			moved := s[last]
			s[next] = moved
			s = s[:last]
			if next < last {
				heap.Push(at[moved], next)
			}
		}
	}
	return s
}

// indices is a heap.
type indices []int

func (p indices) Len() int           { return len(p) }
func (p indices) Less(i, j int) bool { return p[i] < p[j] }
func (p indices) Swap(i, j int)      { p[i], p[j] = p[j], p[i] }

func (p *indices) Push(v any) { *p = append(*p, v.(int)) }

func (p *indices) Pop() any {
	v := (*p)[len(*p)-1]
	*p = (*p)[:len(*p)-1]
	return v
}

// partition separates the items of a list that are in another one from those that are not.
func (m *merging) partition(l list, merged, by []any) (in, out []any, err error) {
	in, out = make([]any, 0, len(merged)), make([]any, 0, len(merged))
	at, bad := map[any]bool{}, -1
	for i, v := range by {
		m.steps++
		if l.key == "" {
			if !hashable(v) {
				return nil, nil, ErrUnmergeable
			}
			at[v] = true
			continue
		}
		item, ok := v.(map[string]any)
		if !ok {
			bad = i
			break
		}
		if key, ok := item[l.key]; ok && hashable(key) {
			at[key] = true
		}
	}
	for _, v := range merged {
		m.steps++
		key := v
		if l.key != "" {
			if key, err = l.keyOf(v); err != nil {
				return nil, nil, err
			}
		}
		switch {
		case !hashable(key):
			return nil, nil, ErrUnmergeable
		case at[key]:
			in = append(in, v)
		case bad >= 0:
			return nil, nil, fmt.Errorf("value for key %v is not a map", bad)
		default:
			out = append(out, v)
		}
	}
	return in, out, nil
}

// parts are the items of a list that a patch mentions and the others, with the lists that define their order.
type parts struct{ patch, patchOrder, server, serverOrder []any }

// arrange sorts and joins the parts of a list: an item of the object comes before one of the patch if it did so in the
// object.
func (m *merging) arrange(l list, kind reflect.Kind, p parts) ([]any, error) {
	patch, err := m.sort(l, kind, p.patch, p.patchOrder)
	if err != nil {
		return nil, err
	}
	server, err := m.sort(l, kind, p.server, p.serverOrder)
	if err != nil {
		return nil, err
	}
	at := m.places(l, kind, p.serverOrder)
	all := make([]any, 0, len(patch)+len(server))
	for len(patch) > 0 && len(server) > 0 {
		m.steps++
		before, ok1 := at[l.identity(kind, server[0])]
		after, ok2 := at[l.identity(kind, patch[0])]
		if ok1 && ok2 && before < after {
			all, server = append(all, server[0]), server[1:]
		} else {
			all, patch = append(all, patch[0]), patch[1:]
		}
	}
	return append(append(all, patch...), server...), nil
}

// sort sorts items by an order, except those that are not in it; items that a patch deletes come last.
func (m *merging) sort(l list, kind reflect.Kind, items, order []any) ([]any, error) {
	var deleted []any
	if kind == reflect.Map {
		for _, v := range slices.Concat(items, order) {
			if _, err := l.keyOf(v); err != nil {
				return nil, err
			}
		}
		var err error
		if items, deleted, err = splitDeleted(items); err != nil {
			return nil, err
		}
	}
	type placed struct {
		item any
		at   int
	}
	at, sorted := m.places(l, kind, order), make([]placed, len(items))
	for i, v := range items {
		place, ok := at[l.identity(kind, v)]
		if !ok {
			place = -1
		}
		sorted[i] = placed{v, place}
	}
	// Upstream's less function is inconsistent for items without a place, so their position depends on the sorting
	// algorithm.
	sort.SliceStable(sorted, func(i, j int) bool {
		m.steps++
		return sorted[i].at < 0 || sorted[j].at < 0 || sorted[i].at < sorted[j].at
	})
	all := make([]any, 0, len(items)+len(deleted))
	for _, p := range sorted {
		all = append(all, p.item)
	}
	return append(all, deleted...), nil
}

// places returns the index of the first item with each identity in a list.
func (m *merging) places(l list, kind reflect.Kind, items []any) map[any]int {
	at := make(map[any]int, len(items))
	for i, v := range items {
		m.steps++
		id := l.identity(kind, v)
		if _, ok := at[id]; !ok {
			at[id] = i
		}
	}
	return at
}

// nobody is the identity of items that cannot be compared, which have no place.
type nobody struct{ *int }

// identity returns a comparable identity of any item.
func (l list) identity(kind reflect.Kind, item any) any {
	id := item
	if kind == reflect.Map {
		object, _ := item.(map[string]any)
		id = object[l.key]
	}
	if !hashable(id) {
		return nobody{new(int)}
	}
	return id
}
