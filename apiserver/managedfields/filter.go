package managedfields

import (
	"slices"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// matcher is a path element of the only fields that an endpoint changes, with what may follow. A
// matcher without kids stands for everything below.
type matcher struct {
	key  string // empty: any
	kids []matcher
}

// addMatcher adds a path to matchers.
func addMatcher(to []matcher, path []string) []matcher {
	if len(path) == 0 {
		return nil
	}
	key := ""
	if path[0] != "*" {
		key = fieldKey(path[0])
	}
	i := slices.IndexFunc(to, func(m matcher) bool { return m.key == key })
	if i < 0 {
		return append(to, matcher{key, addMatcher(nil, path[1:])})
	}
	to[i].kids = addMatcher(to[i].kids, path[1:])
	return to
}

// insert adds a path to a set.
func insert(to []node, path []string) []node {
	key := fieldKey(path[0])
	i, found := slices.BinarySearchFunc(to, key, func(n node, key string) int { return compareKeys(n.key, key) })
	if !found {
		to = slices.Insert(to, i, node{key: key})
	}
	if len(path) == 1 {
		to[i].is |= owned
	} else {
		to[i].kids = insert(to[i].kids, path[1:])
	}
	return to
}

// filter leaves out what the endpoint resets.
func (t *Tracker) filter(a *arena, set []node) []node {
	switch {
	case len(t.only) > 0:
		return a.include(set, t.only)
	case len(t.reset) > 0:
		return a.exclude(set, t.reset)
	}
	return set
}

// libraryFilter is filter for the library, or nil.
func (t *Tracker) libraryFilter() fieldpath.Filter {
	switch {
	case len(t.at.Only) > 0:
		var matchers []*fieldpath.SetMatcher
		for _, path := range t.at.Only {
			var parts []any
			for _, name := range strings.Split(path, ".") {
				if name == "*" {
					parts = append(parts, fieldpath.MatchAnyPathElement())
				} else {
					parts = append(parts, name)
				}
			}
			matchers = append(matchers, fieldpath.MakePrefixMatcherOrDie(parts...))
		}
		return fieldpath.NewIncludeMatcherFilter(matchers...)
	case len(t.at.Reset) > 0:
		set := fieldpath.NewSet()
		for _, path := range t.at.Reset {
			var p fieldpath.Path
			for _, name := range strings.Split(path, ".") {
				p = append(p, fieldpath.FieldNameElement(name))
			}
			set.Insert(p)
		}
		return fieldpath.NewExcludeSetFilter(set)
	}
	return nil
}

// exclude removes paths with all below.
func (a *arena) exclude(set, without []node) []node {
	start, at := len(a.stack), 0
	for _, n := range set {
		if w := find(without, &at, n.key); w != nil {
			if w.is != 0 {
				continue
			}
			if n.kids = a.exclude(n.kids, w.kids); n.is == 0 && len(n.kids) == 0 {
				continue
			}
		}
		a.push(n)
	}
	return a.take(start)
}

// include keeps what matches. What leads to a match is kept, too, if it is in the set.
func (a *arena) include(set []node, only []matcher) []node {
	start := len(a.stack)
	for _, n := range set {
		for i := range only {
			if m := &only[i]; m.key == "" || m.key == n.key {
				if len(m.kids) > 0 {
					n.kids = a.include(n.kids, m.kids)
				}
				if n.is != 0 || len(n.kids) > 0 {
					a.push(n)
				}
				break
			}
		}
	}
	return a.take(start)
}

// strip leaves out what nobody owns: what an object is, and what the server fills in.
func (a *arena) strip(set []node) []node {
	start := len(a.stack)
	for _, n := range set {
		switch n.key {
		case "f:apiVersion", "f:kind":
			n.is = 0
		case "f:metadata":
			n.is, n.kids = 0, a.stripMeta(n.kids)
		}
		if n.is != 0 || len(n.kids) > 0 {
			a.push(n)
		}
	}
	return a.take(start)
}

// unownedMeta are the fields of metadata that nobody owns.
var unownedMeta = [...]string{
	"name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation", "managedFields", "resourceVersion",
}

func (a *arena) stripMeta(set []node) []node {
	start := len(a.stack)
	for _, n := range set {
		if slices.Contains(unownedMeta[:], n.key[len("f:"):]) {
			n.is = 0
		}
		if n.is != 0 || len(n.kids) > 0 {
			a.push(n)
		}
	}
	return a.take(start)
}

// reconcile makes owners of parts of what moves as a whole, from a time when it did not, owners
// of the whole. It returns the same list when there are none.
func (a *arena) reconcile(set []node, s *shape) []node {
	if s == nil || s.form != record && s.form != mapping && s.form != list {
		return set
	}
	start, same, fields := len(a.stack), true, s.fields()
	for _, n := range set {
		if len(n.kids) == 0 {
			a.push(n)
			continue
		}
		part := s.elem
		if s.form == record {
			part, fields = partOf(fields, n.key)
		}
		if part != nil {
			if part.atomic && part.form >= record {
				n.is, n.kids, same = owned, nil, false
			} else if kids := a.reconcile(n.kids, part); !identical(kids, n.kids) {
				n.kids, same = kids, false
			}
		}
		a.push(n)
	}
	if same {
		a.stack = a.stack[:start]
		return set
	}
	return a.take(start)
}

// partOf returns the shape of a record's field, or nil, and the fields from there on: keys come
// in order.
func partOf(fields []field, key string) (*shape, []field) {
	for len(fields) > 0 && fields[0].key != key && compareKeys(fields[0].key, key) < 0 {
		fields = fields[1:]
	}
	if len(fields) > 0 && fields[0].key == key {
		return fields[0].shape, fields
	}
	return nil, fields
}
