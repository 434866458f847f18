package informer

import (
	"cmp"
	"slices"
)

// key names an object of one kind.
type key struct{ namespace, name string }

func keyOf(obj Object) key { return key{obj.GetNamespace(), obj.GetName()} }

// path is the usual notation of a key.
func (k key) path() string {
	if k.namespace == "" {
		return k.name
	}
	return k.namespace + "/" + k.name
}

// index finds objects by values computed from them. The values are not stored but computed again when an object is
// replaced or removed.
type index[T Object] struct {
	name   string
	values func(T) []string
	lists  map[string]*sorted[T]
}

// cache holds the objects of one kind by key, in key order, by namespace and by index. The caller must hold the lock.
type cache[T Object] struct {
	// objects shares the strings of the objects for its keys. It is two thirds of the cache's cost, and makes Get ten
	// times as fast as a search in the lists.
	objects    map[key]T
	all        sorted[T]
	namespaces map[string]*sorted[T]
	indexes    []*index[T]
	// given has deep copies of the objects as they were received, if mutations are detected.
	given map[key]T
}

func newCache[T Object](keepCopies bool) *cache[T] {
	c := &cache[T]{objects: map[key]T{}, namespaces: map[string]*sorted[T]{}}
	if keepCopies {
		c.given = map[key]T{}
	}
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

// addIndex adds an index and fills it. An existing name is left alone.
func (c *cache[T]) addIndex(name string, values func(T) []string) {
	if c.index(name) != nil {
		return
	}
	x := &index[T]{name: name, values: values, lists: map[string]*sorted[T]{}}
	c.indexes = append(c.indexes, x)
	for _, chunk := range c.all.chunks {
		for _, obj := range chunk {
			x.file(obj, x.valuesOf(obj))
		}
	}
}

// former is an object that was replaced or removed, with the copy made when it was received, if mutations are detected.
type former[T Object] struct{ obj, given T }

// put stores obj and returns what it replaces, if anything.
func (c *cache[T]) put(obj T) (old former[T], replaced bool) {
	k := keyOf(obj)
	old.obj, replaced = c.objects[k]
	c.objects[k] = obj // keyed by its own strings, so that those of the previous object can be freed
	c.all.set(obj)
	if k.namespace != "" {
		list := c.namespaces[k.namespace]
		if list == nil {
			list = &sorted[T]{}
			c.namespaces[k.namespace] = list
		}
		list.set(obj)
	}
	if c.given != nil {
		old.given = c.given[k]
		c.given[k] = obj.DeepCopyObject().(T)
	}
	for _, x := range c.indexes {
		now := x.valuesOf(obj)
		if replaced {
			x.unfile(k, x.valuesOf(old.obj), now)
		}
		x.file(obj, now)
	}
	return old, replaced
}

// remove removes the object, if there is one.
func (c *cache[T]) remove(k key) (old former[T], removed bool) {
	old.obj, removed = c.objects[k]
	if !removed {
		return old, false
	}
	delete(c.objects, k)
	c.all.remove(k)
	if list := c.namespaces[k.namespace]; list.remove(k) && list.size == 0 {
		delete(c.namespaces, k.namespace)
	}
	if c.given != nil {
		old.given = c.given[k]
		delete(c.given, k)
	}
	for _, x := range c.indexes {
		x.unfile(k, x.valuesOf(old.obj), nil)
	}
	return old, true
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

// file lists obj under the values, in place of any other object with its key.
func (x *index[T]) file(obj T, values []string) {
	for _, v := range values {
		list := x.lists[v]
		if list == nil {
			list = &sorted[T]{}
			x.lists[v] = list
		}
		list.set(obj)
	}
}

// unfile removes the object of a key from the lists of the values was, except those in now.
func (x *index[T]) unfile(k key, was, now []string) {
	for _, v := range was {
		if _, stays := slices.BinarySearchFunc(now, v, cmp.Compare[string]); !stays && !x.drop(k, v) {
			x.search(k, now)
		}
	}
}

// drop removes the object of a key from the list of a value and reports whether it was there.
func (x *index[T]) drop(k key, v string) bool {
	list := x.lists[v]
	if !list.remove(k) {
		return false
	}
	if list.size == 0 {
		delete(x.lists, v)
	}
	return true
}

// search removes the object of a key from all lists but those of the values now. It is for an object that is not listed
// where it should be, because a shared object was changed.
func (x *index[T]) search(k key, now []string) {
	for v := range x.lists {
		if !slices.Contains(now, v) {
			x.drop(k, v)
		}
	}
}
