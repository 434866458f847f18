package registry

import (
	"sort"
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
	sets   map[string]map[string]T // value → key → object
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

// ByIndex returns the objects with the value in the named index, in key order.
func (l *Live[T]) ByIndex(name, value string) []T {
	l.refresh()
	l.mu.RLock()
	defer l.mu.RUnlock()
	x := l.indexes[name]
	if x == nil || len(x.sets[value]) == 0 {
		return nil
	}
	keys := make([]string, 0, len(x.sets[value]))
	for key := range x.sets[value] {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	list := make([]T, len(keys))
	for i, key := range keys {
		list[i] = x.sets[value][key]
	}
	return list
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
			x.sets = map[string]map[string]T{}
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
		if x.sets[value] == nil {
			x.sets[value] = map[string]T{}
		}
		x.sets[value][i.key] = obj
	}
}

func (x *liveIndex[T]) drop(i *Item) {
	if i.pending {
		return
	}
	for _, value := range x.values(i.Object.(T)) {
		delete(x.sets[value], i.key)
		if len(x.sets[value]) == 0 {
			delete(x.sets, value)
		}
	}
}
