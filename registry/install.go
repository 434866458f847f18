package registry

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/storage"
)

// kindSet is what a registry serves. It never changes; installing a kind makes another.
type kindSet struct {
	named map[schema.GroupResource]*Resource
	order []*Resource
	// versions are the resources by each group-version that serves them.
	versions map[schema.GroupVersionResource]*Resource
	// stored are the resources that have a table, by prefix, and loading those whose table is being read: they are not
	// served yet.
	stored, loading map[string]*Resource
	kinds           func() []*Kind
}

// add adds a resource to a set that nobody reads yet and that has none of its name.
func (s *kindSet) add(res *Resource) error {
	if res.Stored() {
		if other := s.stored[res.Prefix]; other != nil {
			return fmt.Errorf("resources %s and %s share the storage prefix %q", res.GroupResource(), other.GroupResource(), res.Prefix)
		}
		s.stored[res.Prefix] = res
	}
	s.named[res.GroupResource()] = res
	for _, v := range res.Versions() {
		s.versions[v.GroupVersion.WithResource(v.Plural)] = v
	}
	s.order = append(s.order, res)
	return nil
}

// with returns the set with one more resource, or with another of its name.
func (s *kindSet) with(res *Resource) (*kindSet, error) {
	next := s.without(res.GroupResource())
	if err := next.add(res); err != nil {
		return nil, err
	}
	if at := slices.Index(s.order, s.named[res.GroupResource()]); at >= 0 {
		next.order = slices.Clone(s.order)
		next.order[at] = res
	}
	return next, nil
}

// without returns a copy of the set that lacks the resource.
func (s *kindSet) without(gr schema.GroupResource) *kindSet {
	next := &kindSet{
		named: map[schema.GroupResource]*Resource{}, versions: map[schema.GroupVersionResource]*Resource{},
		stored: map[string]*Resource{}, order: slices.Clone(s.order),
	}
	next.kinds = sync.OnceValue(func() []*Kind {
		all := make([]*Kind, len(next.order))
		for i, res := range next.order {
			all[i] = &res.Kind
		}
		return all
	})
	maps.Copy(next.named, s.named)
	maps.Copy(next.versions, s.versions)
	maps.Copy(next.stored, s.stored)
	if old := s.named[gr]; old != nil {
		delete(next.named, gr)
		maps.DeleteFunc(next.versions, func(_ schema.GroupVersionResource, v *Resource) bool { return v.stored == old })
		next.order = slices.DeleteFunc(next.order, func(res *Resource) bool { return res == old })
		if old.Stored() {
			delete(next.stored, old.Prefix)
		}
	}
	return next
}

// locate splits a storage key into its resource and the key within it.
func locate(byPrefix map[string]*Resource, key string) (*Resource, string) {
	rest, ok := strings.CutPrefix(key, Root)
	if !ok || len(byPrefix) == 0 {
		return nil, ""
	}
	for at := 0; ; {
		slash := strings.IndexByte(rest[at:], '/')
		if slash < 0 {
			return nil, ""
		}
		at += slash
		if res := byPrefix[rest[:at]]; res != nil {
			return res, rest[at+1:]
		}
		at++
	}
}

// resource returns a new resource of a kind.
func (r *Registry) resource(k Kind) (*Resource, error) {
	gr := k.GroupResource()
	if k.Plural == "" || k.Kind == "" || k.GroupVersion.Version == "" {
		return nil, fmt.Errorf("kind %q of %s: kind, plural and version must be set", k.Kind, k.GroupVersion)
	}
	res := &Resource{Kind: k, registry: r}
	if k.Answer == nil {
		if k.New == nil || k.NewList == nil {
			return nil, fmt.Errorf("resource %s: New and NewList must be set", gr)
		}
		switch defined := len(k.Columns.Definitions) > 0; {
		case defined != (k.Columns.Cells != nil):
			return nil, fmt.Errorf("resource %s: columns need both Definitions and Cells", gr)
		case !defined:
			res.Columns = defaultColumns()
		}
	}
	if k.Stored() {
		res.table = newTable(&r.options, r.waker)
	}
	res.stored = res
	for i := range k.Also {
		v := &k.Also[i]
		res.further = append(res.further, &Resource{Kind: res.in(v), registry: r, table: res.table, version: v, stored: res})
	}
	return res, nil
}

// Resource returns the named resource in its stored version, or false if it is not served.
func (r *Registry) Resource(gr schema.GroupResource) (*Resource, bool) {
	res, ok := r.kinds.Load().named[gr]
	return res, ok
}

// Find returns the resource that a group-version serves under a plural, or false if it is not served.
func (r *Registry) Find(gvr schema.GroupVersionResource) (*Resource, bool) {
	res, ok := r.kinds.Load().versions[gvr]
	return res, ok
}

// Resources returns all resources, in their stored versions, in the order in which they were defined. The slice is shared and must not be changed;
// after a kind was installed or removed, Resources returns another.
func (r *Registry) Resources() []*Resource { return r.kinds.Load().order }

// Kinds returns the kinds of all resources, in the same order. Neither the slice nor the kinds may be changed; a kind keeps
// its address until it is replaced.
func (r *Registry) Kinds() []*Kind { return r.kinds.Load().kinds() }

// Install serves one more kind, or replaces the kind of the same group and plural, and returns its resource. Objects that
// the store has under the kind's prefix are read first: the new resource begins with them and sees every later change.
// Requests go to the old resource until then; its watches end with io.EOF, and those who were behind must list again. Requests
// that still hold the old resource fail with ErrReplaced, before they have changed anything. If
// ctx ends while Install waits for the registry to catch up with what was read, the kind is installed all the same.
func (r *Registry) Install(ctx context.Context, k Kind) (*Resource, error) {
	res, revision, err := r.install(ctx, k)
	if err != nil {
		return nil, err
	}
	return res, r.clock.wait(ctx, revision)
}

// install is Install, but for the wait until the registry shows the revision at which the objects were read.
func (r *Registry) install(ctx context.Context, k Kind) (*Resource, int64, error) {
	res, err := r.resource(k)
	if err != nil {
		return nil, 0, err
	}
	r.installing.Lock()
	defer r.installing.Unlock()
	before := r.kinds.Load()
	after, err := before.with(res)
	if err != nil {
		return nil, 0, err
	}
	var revision int64
	if res.Stored() && r.begun {
		res.table.deferred = &[]storage.Event{}
		during := *before
		during.loading = map[string]*Resource{res.Prefix: res}
		// Changes are deferred from here on, so that those before are in the list.
		r.kinds.Store(&during)
		if revision, err = r.loadOne(ctx, res); err != nil {
			r.kinds.Store(before)
			return nil, 0, fmt.Errorf("install %s: %w", res.GroupResource(), err)
		}
	}
	r.kinds.Store(after)
	if old := before.named[res.GroupResource()]; old != nil {
		old.end(true)
	}
	return res, revision, nil
}

// loadOne reads the newest state of one resource and returns its revision.
func (r *Registry) loadOne(ctx context.Context, res *Resource) (int64, error) {
	s, o := newState(), storage.ListOptions{Limit: loadPage}
	for {
		page, err := r.store.List(ctx, res.storageKey(""), o)
		if err != nil {
			return 0, fmt.Errorf("list the store: %w", err)
		}
		for _, rec := range page.Records {
			r.take(s, res, strings.TrimPrefix(rec.Key, res.storageKey("")), rec)
		}
		o.Revision = page.Revision
		if !page.More {
			break
		}
		o.After = page.Records[len(page.Records)-1].Key
	}
	t := res.table
	t.replace(s, o.Revision)
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range *t.deferred {
		_, key := locate(map[string]*Resource{res.Prefix: res}, e.Key)
		r.prepare(res, key, e).apply(t)
	}
	t.deferred = nil
	return o.Revision, nil
}

// defers keeps a change for a table that is being read. It returns false once the table has been read.
func (t *table) defers(e storage.Event) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.deferred == nil {
		return false
	}
	*t.deferred = append(*t.deferred, e)
	return true
}

// Remove stops serving a kind and reports whether it was served. Its objects stay in the store. Its watches end with
// io.EOF; requests that still hold its resource fail with ErrNotFound.
func (r *Registry) Remove(gr schema.GroupResource) bool {
	r.installing.Lock()
	defer r.installing.Unlock()
	before := r.kinds.Load()
	old := before.named[gr]
	if old == nil {
		return false
	}
	r.kinds.Store(before.without(gr))
	old.end(false)
	return true
}

// end ends the resource: it is no longer served, or another has taken its place.
func (r *Resource) end(replaced bool) {
	if t := r.table; t != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.ended, t.replaced = true, replaced
		t.idle.wakeAll()
	}
}

// served returns an error if the resource has been replaced or removed.
func (r *Resource) served() error {
	if t := r.table; t != nil {
		t.mu.RLock()
		defer t.mu.RUnlock()
		switch {
		case t.replaced:
			return fmt.Errorf("%w: %w", ErrReplaced, r.errorf(ErrNotFound, "", ""))
		case t.ended:
			return r.errorf(ErrNotFound, "", "")
		}
	}
	return nil
}
