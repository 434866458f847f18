package clientgo

import (
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"github.com/keelson-dev/keelson/informer"
)

// store is the cache of an informer as a cache.Indexer. It can be written to, as tests with listers do; handlers do not
// see such writes.
type store struct {
	inner *informer.Informer[informer.Object]
	log   *slog.Logger

	mu       sync.RWMutex // guards indexers
	indexers cache.Indexers
	// namespaced says that the index by namespace is the informer's own.
	namespaced bool
}

var _ cache.Indexer = (*store)(nil)

func newStore(inner *informer.Informer[informer.Object], log *slog.Logger, indexers cache.Indexers) *store {
	s := &store{inner: inner, log: log, indexers: cache.Indexers{}}
	s.add(indexers)
	return s
}

// AddIndexers implements cache.Indexer.
func (s *store) AddIndexers(indexers cache.Indexers) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if taken := sets.KeySet(s.indexers).Intersection(sets.KeySet(indexers)); len(taken) > 0 {
		return fmt.Errorf("indexer conflict: %v", taken)
	}
	s.add(indexers)
	return nil
}

// add adds indexers whose names are free. The caller must hold the lock.
func (s *store) add(indexers cache.Indexers) {
	for name, f := range indexers {
		s.indexers[name] = f
		if name == cache.NamespaceIndex && reflect.ValueOf(f).Pointer() == reflect.ValueOf(cache.MetaNamespaceIndexFunc).Pointer() {
			s.namespaced = true
			continue
		}
		s.inner.AddIndex("i:"+name, func(obj informer.Object) []string {
			values, err := f(obj)
			if err != nil {
				s.log.Error("object is not indexed", "index", name, "namespace", obj.GetNamespace(), "name", obj.GetName(), "err", err)
				return nil
			}
			return values
		})
	}
}

// GetIndexers implements cache.Indexer. The map is the caller's.
func (s *store) GetIndexers() cache.Indexers {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return maps.Clone(s.indexers)
}

// lookup returns an index function, and whether it is the built-in one by namespace.
func (s *store) lookup(name string) (f cache.IndexFunc, builtIn bool, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	f = s.indexers[name]
	if f == nil {
		return nil, false, fmt.Errorf("Index with name %s does not exist", name)
	}
	return f, s.namespaced && name == cache.NamespaceIndex, nil
}

// find returns the objects that an index has under a value.
func (s *store) find(name, value string) ([]informer.Object, error) {
	_, builtIn, err := s.lookup(name)
	switch {
	case err != nil:
		return nil, err
	case !builtIn:
		return s.inner.ByIndex("i:"+name, value), nil
	case value != "":
		return s.inner.List(value), nil
	}
	return slices.DeleteFunc(s.inner.List(""), func(obj informer.Object) bool { return obj.GetNamespace() != "" }), nil
}

// ByIndex implements cache.Indexer. The objects are in key order.
func (s *store) ByIndex(name, value string) ([]any, error) {
	found, err := s.find(name, value)
	if err != nil {
		return nil, err
	}
	return untyped(found), nil
}

// IndexKeys implements cache.Indexer.
func (s *store) IndexKeys(name, value string) ([]string, error) {
	found, err := s.find(name, value)
	if err != nil {
		return nil, err
	}
	out := keys(found)
	slices.Sort(out)
	return out, nil
}

// Index implements cache.Indexer. The objects are in the order of the values and keys.
func (s *store) Index(name string, obj any) ([]any, error) {
	f, _, err := s.lookup(name)
	if err != nil {
		return nil, err
	}
	values, err := f(obj)
	if err != nil {
		return nil, err
	}
	if len(values) == 1 {
		return s.ByIndex(name, values[0])
	}
	out, seen := []any{}, map[string]bool{}
	for _, value := range values {
		found, err := s.find(name, value)
		if err != nil {
			return nil, err
		}
		for n, key := range keys(found) {
			if !seen[key] {
				seen[key] = true
				out = append(out, found[n])
			}
		}
	}
	return out, nil
}

// ListIndexFuncValues implements cache.Indexer.
func (s *store) ListIndexFuncValues(name string) []string {
	_, builtIn, err := s.lookup(name)
	switch {
	case err != nil:
		return []string{}
	case !builtIn:
		return s.inner.IndexValues("i:" + name)
	}
	values := s.inner.Namespaces()
	if none, err := s.find(name, ""); err == nil && len(none) > 0 {
		values = append(values, "")
	}
	return values
}

// List implements cache.Store. The objects are in key order.
func (s *store) List() []any { return untyped(s.inner.List("")) }

// ListKeys implements cache.Store.
func (s *store) ListKeys() []string { return keys(s.inner.List("")) }

// Get implements cache.Store.
func (s *store) Get(obj any) (item any, exists bool, err error) {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return nil, false, cache.KeyError{Obj: obj, Err: err}
	}
	return s.GetByKey(key)
}

// GetByKey implements cache.Store.
func (s *store) GetByKey(key string) (item any, exists bool, err error) {
	if obj, ok := s.inner.Get(split(key)); ok {
		return obj, true, nil
	}
	return nil, false, nil
}

// Add implements cache.Store.
func (s *store) Add(obj any) error {
	typed, ok := obj.(informer.Object)
	if !ok {
		return cache.KeyError{Obj: obj, Err: fmt.Errorf("object has no meta: a %T is no API object", obj)}
	}
	s.inner.Put(typed)
	return nil
}

// Update implements cache.Store.
func (s *store) Update(obj any) error { return s.Add(obj) }

// Delete implements cache.Store.
func (s *store) Delete(obj any) error {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return cache.KeyError{Obj: obj, Err: err}
	}
	s.inner.Drop(split(key))
	return nil
}

// Replace implements cache.Store, but not atomically.
func (s *store) Replace(objects []any, _ string) error {
	stay := map[string]bool{}
	for _, obj := range objects {
		key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
		if err != nil {
			return cache.KeyError{Obj: obj, Err: err}
		}
		if err := s.Add(obj); err != nil {
			return err
		}
		stay[key] = true
	}
	for _, key := range s.ListKeys() {
		if !stay[key] {
			s.inner.Drop(split(key))
		}
	}
	return nil
}

// Resync implements cache.Store: it does nothing.
func (s *store) Resync() error { return nil }

// Bookmark implements cache.Store: it does nothing, since the informer follows its source.
func (s *store) Bookmark(string) {}

// LastStoreSyncResourceVersion implements cache.Store.
func (s *store) LastStoreSyncResourceVersion() string { return s.inner.LastVersion() }

func split(key string) (namespace, name string) {
	if namespace, name, ok := strings.Cut(key, "/"); ok {
		return namespace, name
	}
	return "", key
}

func untyped(objects []informer.Object) []any {
	out := make([]any, len(objects))
	for n, obj := range objects {
		out[n] = obj
	}
	return out
}

func keys(objects []informer.Object) []string {
	out := make([]string, len(objects))
	for n, obj := range objects {
		out[n] = cache.MetaObjectToName(obj).String()
	}
	return out
}
