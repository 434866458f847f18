package apiserver

import (
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/registry"
)

// catalog follows which kinds the registry has. It looks when a request asks, and so costs nothing in between.
type catalog struct {
	registry *registry.Registry
	newest   atomic.Pointer[served]
	building sync.Mutex
}

// served is what is served at one time. It does not change.
type served struct {
	resources []*registry.Resource
	endpoints map[schema.GroupVersionResource]*endpoint
	scheme    func() *runtime.Scheme // the types of all kinds, made when first needed
}

// served returns what is served now.
func (c *catalog) served() *served {
	if s := c.newest.Load(); s.is(c.registry.Resources()) {
		return s
	}
	c.building.Lock()
	defer c.building.Unlock()
	all, before := c.registry.Resources(), c.newest.Load()
	if before.is(all) {
		return before
	}
	s := newServed(all, before)
	c.newest.Store(s)
	return s
}

// is reports whether these are the resources that are served: the registry returns another slice after a change.
func (s *served) is(resources []*registry.Resource) bool {
	return s != nil && len(s.resources) == len(resources) && (len(resources) == 0 || &s.resources[0] == &resources[0])
}

// newServed keeps the endpoints of resources that were served before.
func newServed(resources []*registry.Resource, before *served) *served {
	s := &served{resources: resources, endpoints: map[schema.GroupVersionResource]*endpoint{}}
	add := func(e *endpoint) {
		at := e.gvr()
		if before != nil && before.endpoints[at] != nil && before.endpoints[at].resource == e.resource {
			e = before.endpoints[at]
		}
		s.endpoints[at] = e
	}
	for _, res := range resources {
		for _, v := range res.Versions() {
			add(&endpoint{resource: v, names: v.Names, gv: v.GroupVersion})
		}
	}
	s.scheme = sync.OnceValue(func() *runtime.Scheme { return registry.Scheme(kindsOf(resources)) })
	return s
}

// ending returns the resources whose objects are being deleted for good.
func (s *served) ending() []*registry.Resource {
	var all []*registry.Resource
	for _, res := range s.resources {
		if res.Rules.Deletion.Ending != nil && res.Rules.Deletion.Ending() {
			all = append(all, res)
		}
	}
	return all
}

func kindsOf(resources []*registry.Resource) []registry.Kind {
	kinds := make([]registry.Kind, 0, len(resources))
	for _, res := range resources {
		kinds = append(kinds, res.Kind)
	}
	return kinds
}
