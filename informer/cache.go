package informer

import (
	"cmp"
	"slices"
)

// key names an object of one kind.
type key struct{ namespace, name string }

func keyOf(obj Object) key { return key{obj.GetNamespace(), obj.GetName()} }

// path is how people write a key.
func (k key) path() string {
	if k.namespace == "" {
		return k.name
	}
	return k.namespace + "/" + k.name
}

// index finds objects by values computed from them. The values are not kept but computed again
// when an object is replaced or removed.
type index[T Object] struct {
	name   string
	values func(T) []string
	lists  map[string]*sorted[T]
}

// cache holds the objects of one kind by key, in key order, by namespace and by index. The caller
// locks.
type cache[T Object] struct {
	// objects has the strings of the objects themselves for keys. It is two thirds of what the
	// cache costs, and makes Get ten times as fast as a search in the lists.
	objects    map[key]T
	all        sorted[T]
	namespaces map[string]*sorted[T]
	indexes    []*index[T]
	// given has deep copies of the objects as they came in, if mutations are looked for.
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

// addIndex adds an index and files what is there already. A name that is taken is left alone.
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

// former is an object that was replaced or removed, and what it was like when it came in, if
// mutations are looked for.
type former[T Object] struct{ obj, given T }

// put takes in obj and returns what it replaces, if anything.
func (c *cache[T]) put(obj T) (old former[T], replaced bool) {
	k := keyOf(obj)
	old.obj, replaced = c.objects[k]
	c.objects[k] = obj // under its own strings, so that those of the object before can go
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

// remove takes out the object, if there is one.
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

// file makes obj found by the values, also in place of another of its key.
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

// unfile takes the object of a key out of the lists of the values was, except now.
func (x *index[T]) unfile(k key, was, now []string) {
	for _, v := range was {
		if _, stays := slices.BinarySearchFunc(now, v, cmp.Compare[string]); !stays && !x.drop(k, v) {
			x.search(k, now)
		}
	}
}

// drop takes the object of a key out of the list of a value and tells whether it was there.
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

// search takes the object of a key out of all lists but those of the values now. It is for an
// object that is not where it says: somebody has changed it although it is shared.
func (x *index[T]) search(k key, now []string) {
	for v := range x.lists {
		if !slices.Contains(now, v) {
			x.drop(k, v)
		}
	}
}
