package endpointslices

import (
	"sync"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/controllers"
)

// What a tracker knows of a slice that is not there any more, instead of a generation.
const (
	gone = -1 - iota // deleted by us; the cache may still show it
	lost             // seen to go since the service was last read
)

// tracker records what was written for each service's slices. It reports whether the cache shows that and whether
// somebody else wrote. It is safe for concurrent use.
//
// A service is read, then written, by one worker at a time. A slice that is seen to go in between stays recorded as
// lost, since the answer to our last write to it may still arrive.
type tracker struct {
	mu       sync.Mutex
	services map[controllers.Key]map[types.UID]int64 // generations
}

func newTracker() *tracker {
	return &tracker{services: map[controllers.Key]map[types.UID]int64{}}
}

// set records a generation, unless the slice is lost; the caller holds the lock.
func (t *tracker) set(slice *discoveryv1.EndpointSlice, generation int64) {
	key := ServiceOf(slice)
	if t.services[key] == nil {
		t.services[key] = map[types.UID]int64{}
	}
	if t.services[key][slice.UID] != lost {
		t.services[key][slice.UID] = generation
	}
}

// wrote records the slice that a write returned.
func (t *tracker) wrote(slice *discoveryv1.EndpointSlice) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.set(slice, slice.Generation)
}

// expectDeletion records that the slice was deleted.
func (t *tracker) expectDeletion(slice *discoveryv1.EndpointSlice) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.set(slice, gone)
}

// foreign reports whether a slice has a later generation than the one last written, or was not written by us at all.
func (t *tracker) foreign(slice *discoveryv1.EndpointSlice) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	generation, ok := t.services[ServiceOf(slice)][slice.UID]
	return !ok || slice.Generation > generation
}

// deleted records that a slice was seen to go, and reports whether somebody else deleted it. That includes slices that
// an earlier process wrote.
func (t *tracker) deleted(slice *discoveryv1.EndpointSlice) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	ours := t.services[ServiceOf(slice)][slice.UID] == gone
	t.set(slice, lost)
	return !ours
}

// behind is called with the cached slices of a service when the service is read. It reports whether they differ from
// what was written last: a slice is older, or was deleted, or is missing.
func (t *tracker) behind(service controllers.Key, cached []*discoveryv1.EndpointSlice) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	known, behind := t.services[service], false
	there := map[types.UID]bool{}
	for _, slice := range cached {
		there[slice.UID] = true
		generation := known[slice.UID] // 0 if we did not write it
		behind = behind || generation < 0 || generation > slice.Generation
	}
	for uid, generation := range known {
		switch {
		case generation == lost:
			delete(known, uid)
		case generation != gone && !there[uid]:
			behind = true
		}
	}
	if len(known) == 0 {
		delete(t.services, service)
	}
	return behind
}

// forget drops the records of a service.
func (t *tracker) forget(service controllers.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.services, service)
}
