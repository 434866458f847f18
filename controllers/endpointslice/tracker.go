package endpointslice

import (
	"sync"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/controllers"
)

// gone is the generation of a slice that was deleted.
const gone = -1

// tracker records what was written for each service's slices. It reports whether the cache shows that and whether
// somebody else wrote. It is safe for concurrent use.
type tracker struct {
	mu       sync.Mutex
	services map[controllers.Key]map[types.UID]int64 // generations
}

func newTracker() *tracker {
	return &tracker{services: map[controllers.Key]map[types.UID]int64{}}
}

func (t *tracker) set(slice *discoveryv1.EndpointSlice, generation int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := serviceOf(slice)
	if t.services[key] == nil {
		t.services[key] = map[types.UID]int64{}
	}
	t.services[key][slice.UID] = generation
}

// wrote records the slice that a write returned.
func (t *tracker) wrote(slice *discoveryv1.EndpointSlice) { t.set(slice, slice.Generation) }

// expectDeletion records that the slice was deleted.
func (t *tracker) expectDeletion(slice *discoveryv1.EndpointSlice) { t.set(slice, gone) }

// foreign reports whether a slice has a later generation than the one last written, or was not written by us at all.
func (t *tracker) foreign(slice *discoveryv1.EndpointSlice) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	generation, ok := t.services[serviceOf(slice)][slice.UID]
	return !ok || slice.Generation > generation
}

// deleted drops the record of a deleted slice and reports whether somebody else deleted it.
func (t *tracker) deleted(slice *discoveryv1.EndpointSlice) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.services[serviceOf(slice)]
	generation, ok := known[slice.UID]
	delete(known, slice.UID)
	return ok && generation != gone
}

// behind reports whether the cached slices of a service differ from what was written last: a slice is older, or was
// deleted, or is missing.
func (t *tracker) behind(service controllers.Key, cached []*discoveryv1.EndpointSlice) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	there := map[types.UID]bool{}
	for _, slice := range cached {
		there[slice.UID] = true
		generation := t.services[service][slice.UID] // 0 if we did not write it
		if generation == gone || generation > slice.Generation {
			return true
		}
	}
	for uid, generation := range t.services[service] {
		if generation != gone && !there[uid] {
			return true
		}
	}
	return false
}

// forget drops the records of a service.
func (t *tracker) forget(service controllers.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.services, service)
}
