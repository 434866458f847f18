package registry

import (
	"slices"
	"sort"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Live reads the objects of one kind straight from the registry's cache, with an informer's interface. It has
// no goroutine and does not lag: a read shows every write that was acknowledged before. Authorizers and
// admission plugins of the same process use it, so that a role takes effect as soon as it is bound. Like
// Source, it bypasses authorization.
//
// A Live is safe for concurrent use. Its objects are shared and must not be changed.
type Live[T Object] struct {
	table *table

	mu      sync.RWMutex
	next    int64 // sequence number of the first change that the indexes do not reflect
	built   bool
	indexes map[string]*liveIndex[T]
}

type liveIndex[T Object] struct {
	values func(T) []string
	lists  map[string]*liveList[T] // by value; none is empty
}

// liveList has objects in key order. Readers share the objects: what they were given never changes.
type liveList[T Object] struct {
	keys    []string
	objects []T
}

// NewLive returns a live reader of a resource. When the kind is replaced or removed, it keeps the state of that moment.
func NewLive[T Object](r *Registry, gr schema.GroupResource) (*Live[T], error) {
	res, err := resourceOf[T](r, gr)
	if err != nil {
		return nil, err
	}
	return &Live[T]{table: res.table, indexes: map[string]*liveIndex[T]{}}, nil
}

// Get returns the object. Cluster-scoped objects have no namespace.
func (l *Live[T]) Get(namespace, name string) (obj T, ok bool) {
	item := l.table.get(indexKey(namespace, name))
	if item == nil || item.pending {
		return obj, false
	}
	return item.Object.(T), true
}

// List returns the objects of a namespace, or of all when it is empty, in key order.
func (l *Live[T]) List(namespace string) []T {
	prefix := ""
	if namespace != "" {
		prefix = namespace + "/"
	}
	var list []T
	ascend(l.table.newest(), prefix, "", func(i *Item) bool {
		if !i.pending {
			list = append(list, i.Object.(T))
		}
		return true
	})
	return list
}

// AddIndex indexes objects for ByIndex under the values that a pure function computes from them. It leaves an
// existing index of that name unchanged.
func (l *Live[T]) AddIndex(name string, values func(T) []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.indexes[name] == nil {
		l.indexes[name] = &liveIndex[T]{values: values}
		l.built = false
	}
}

// ByIndex returns the objects with the value in the named index, in key order. The slice is shared: callers only read it.
func (l *Live[T]) ByIndex(name, value string) []T { return l.ByIndexIn(name, value, "") }

// ByIndexIn returns those of ByIndex that are in a namespace, or all if it is empty.
func (l *Live[T]) ByIndexIn(name, value, namespace string) []T {
	l.refresh()
	l.mu.RLock()
	defer l.mu.RUnlock()
	x := l.indexes[name]
	if x == nil {
		return nil
	}
	list := x.lists[value]
	if list == nil {
		return nil
	}
	from, to := 0, len(list.keys)
	if namespace != "" {
		from = sort.Search(to, func(i int) bool { return !below(list.keys[i], namespace, '/') })
		to = from + sort.Search(to-from, func(i int) bool { return !below(list.keys[from+i], namespace, '/'+1) })
	}
	return list.objects[from:to:to]
}

// below reports whether key < namespace + last.
func below(key, namespace string, last byte) bool {
	n := min(len(key), len(namespace))
	if c := strings.Compare(key[:n], namespace[:n]); c != 0 {
		return c < 0
	}
	return len(key) <= len(namespace) || key[n] < last
}

// refresh brings the indexes up to date: from the latest changes, or from scratch if there are too many.
func (l *Live[T]) refresh() {
	t := l.table
	t.mu.RLock()
	end := t.log.end()
	t.mu.RUnlock()
	l.mu.RLock()
	current := l.built && l.next == end
	l.mu.RUnlock()
	if current {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	t.mu.RLock()
	defer t.mu.RUnlock()
	if !l.built || l.next < t.log.base {
		for _, x := range l.indexes {
			x.lists = map[string]*liveList[T]{}
			t.tree.All(func(i *Item) bool { x.add(i); return true })
		}
		l.built, l.next = true, t.log.end()
		return
	}
	for ; l.next < t.log.end(); l.next++ {
		c := t.log.entry(l.next)
		for _, x := range l.indexes {
			if c.prev != nil {
				x.drop(c.prev)
			}
			if !c.deleted {
				x.add(c.item)
			}
		}
	}
}

func (x *liveIndex[T]) add(i *Item) {
	if i.pending {
		return
	}
	obj := i.Object.(T)
	for _, value := range x.values(obj) {
		list := x.lists[value]
		if list == nil {
			list = &liveList[T]{}
			x.lists[value] = list
		}
		list.put(i.key, obj)
	}
}

func (x *liveIndex[T]) drop(i *Item) {
	if i.pending {
		return
	}
	for _, value := range x.values(i.Object.(T)) {
		if list := x.lists[value]; list != nil && list.remove(i.key) {
			delete(x.lists, value)
		}
	}
}

// put adds an object, or replaces the one of its key.
func (l *liveList[T]) put(key string, obj T) {
	at, found := slices.BinarySearch(l.keys, key)
	switch {
	case found:
		l.objects = slices.Clone(l.objects)
		l.objects[at] = obj
	case at == len(l.keys): // beyond what readers have of the array
		l.keys, l.objects = append(l.keys, key), append(l.objects, obj)
	default:
		l.keys, l.objects = slices.Insert(l.keys, at, key), slices.Concat(l.objects[:at], []T{obj}, l.objects[at:])
	}
}

// remove removes the object of a key and reports whether none is left.
func (l *liveList[T]) remove(key string) (empty bool) {
	if at, found := slices.BinarySearch(l.keys, key); found {
		l.keys, l.objects = slices.Delete(l.keys, at, at+1), slices.Concat(l.objects[:at], l.objects[at+1:])
	}
	return len(l.keys) == 0
}
