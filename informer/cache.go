package informer

import (
	"cmp"
	"slices"
)

// key names an object of one kind.
type key struct{ namespace, name string }

func keyOf(obj Object) key { return key{obj.GetNamespace(), obj.GetName()} }

// path orders keys as the storage of an API server does: by the bytes of namespace/name.
func (k key) path() string {
	if k.namespace == "" {
		return k.name
	}
	return k.namespace + "/" + k.name
}

// index finds objects by values computed from them.
type index[T Object] struct {
	name   string
	values func(T) []string
	lists  map[string]*sorted[T]
}

// cache holds the objects of one kind by key, in key order and by index. The caller locks.
type cache[T Object] struct {
	entries map[key]*entry[T]
	all     sorted[T]
	// indexes starts with the index by namespace, which has no name.
	indexes []*index[T]
	// keepCopies says to fill asGiven.
	keepCopies bool
}

func newCache[T Object](keepCopies bool) *cache[T] {
	c := &cache[T]{entries: map[key]*entry[T]{}, keepCopies: keepCopies}
	c.addIndex("", func(obj T) []string {
		if ns := obj.GetNamespace(); ns != "" {
			return []string{ns}
		}
		return nil
	})
	return c
}

// index returns the index of that name, or nil.
func (c *cache[T]) index(name string) *index[T] {
	for _, x := range c.indexes {
		if x.name == name {
			return x
		}
	}
	return nil
}

// addIndex adds an index and files what is there already. A name that is taken is left alone.
func (c *cache[T]) addIndex(name string, values func(T) []string) {
	if c.index(name) != nil {
		return
	}
	x := &index[T]{name: name, values: values, lists: map[string]*sorted[T]{}}
	c.indexes = append(c.indexes, x)
	for _, chunk := range c.all.chunks {
		for _, e := range chunk {
			v := x.valuesOf(e.obj)
			e.values = append(e.values, v)
			x.file(e, nil, v)
		}
	}
}

// put takes in obj and returns what it replaces, of which only the objects are of use.
func (c *cache[T]) put(obj T) (old *entry[T]) {
	k := keyOf(obj)
	e, exists := c.entries[k]
	if exists {
		before := *e
		old = &before
	} else {
		e = &entry[T]{path: k.path(), values: make([][]string, len(c.indexes))}
		c.entries[k] = e
		c.all.insert(e)
	}
	e.obj = obj
	if c.keepCopies {
		e.asGiven = obj.DeepCopyObject().(T)
	}
	for i, x := range c.indexes {
		was, now := e.values[i], x.valuesOf(obj)
		e.values[i] = now
		x.file(e, was, now)
	}
	return old
}

// remove takes out the object and returns its entry, or nil when there is none.
func (c *cache[T]) remove(k key) *entry[T] {
	e, ok := c.entries[k]
	if !ok {
		return nil
	}
	delete(c.entries, k)
	c.all.remove(e.path)
	for i, x := range c.indexes {
		x.file(e, e.values[i], nil)
	}
	return e
}

// valuesOf returns the distinct values of obj, in order.
func (x *index[T]) valuesOf(obj T) []string {
	v := x.values(obj)
	if len(v) < 2 {
		return v
	}
	v = slices.Clone(v)
	slices.Sort(v)
	return slices.Compact(v)
}

// file moves e from the lists of the values was to those of the values now.
func (x *index[T]) file(e *entry[T], was, now []string) {
	if slices.Equal(was, now) {
		return
	}
	for _, v := range was {
		if _, stays := slices.BinarySearchFunc(now, v, cmp.Compare[string]); stays {
			continue
		}
		list := x.lists[v]
		list.remove(e.path)
		if list.size == 0 {
			delete(x.lists, v)
		}
	}
	for _, v := range now {
		if _, was := slices.BinarySearchFunc(was, v, cmp.Compare[string]); was {
			continue
		}
		list := x.lists[v]
		if list == nil {
			list = &sorted[T]{}
			x.lists[v] = list
		}
		list.insert(e)
	}
}
