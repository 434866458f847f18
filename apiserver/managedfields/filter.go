package managedfields

import "slices"

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
		to[i].children = insert(to[i].children, path[1:])
	}
	return to
}

// exclude removes paths with all below.
func (a *arena) exclude(set, without []node) []node {
	if len(without) == 0 {
		return set
	}
	start, at := len(a.stack), 0
	for _, n := range set {
		if w := a.find(without, &at, n.key); w != nil {
			if w.is != 0 {
				continue
			}
			if n.children = a.exclude(n.children, w.children); n.is == 0 && len(n.children) == 0 {
				continue
			}
		}
		a.push(n)
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
			n.is, n.children = 0, a.stripMeta(n.children)
		}
		if n.is != 0 || len(n.children) > 0 {
			a.push(n)
		}
	}
	return a.take(start)
}

// unownedMeta are the fields of metadata that nobody owns.
func unownedMeta() [9]string {
	return [...]string{
		"name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation", "managedFields", "resourceVersion",
	}
}

func (a *arena) stripMeta(set []node) []node {
	start, unowned := len(a.stack), unownedMeta()
	for _, n := range set {
		if slices.Contains(unowned[:], n.key[len("f:"):]) {
			n.is = 0
		}
		if n.is != 0 || len(n.children) > 0 {
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
		if len(n.children) == 0 {
			a.push(n)
			continue
		}
		part := s.elem
		if s.form == record {
			part, fields = partOf(fields, n.key)
		}
		if part != nil {
			if part.atomic && part.form >= record {
				n.is, n.children, same = owned, nil, false
			} else if children := a.reconcile(n.children, part); !identical(children, n.children) {
				n.children, same = children, false
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
