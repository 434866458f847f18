package security

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/cri"
)

const unit = 1 << 16 // the least number of user IDs of a pod; ranges are multiples of it

// Users are the node's user IDs to allocate to pods. The zero value is upstream's: all but the first 65536, in ranges
// of 65536. Kubelets on the same machine need disjoint ranges.
type Users struct {
	// First is the first user ID and PerPod the number per pod, both multiples of 65536. First is at least PerPod: the
	// node's own users are never allocated.
	First, PerPod uint32
	// Pods is the maximum number of pods with user namespaces.
	Pods uint32
	// Taken holds the ranges already allocated, by their first user IDs.
	Taken map[types.UID]uint32
	// Save saves which pods have which ranges, before a pod gets a new one and after one is released; nil saves
	// nothing. It must not retain the map.
	Save func(map[types.UID]uint32) error
}

// Allocator allocates ranges of user IDs, each to one pod. Make one with NewAllocator.
type Allocator struct {
	users Users

	mu    sync.Mutex
	taken map[types.UID]uint32
	used  map[uint32]types.UID
	next  uint32 // index of the range to try first, so that released ones are not reused at once
}

// NewAllocator makes an Allocator. It fails if the ranges are invalid, or if a taken range is not among them or taken
// twice.
func NewAllocator(u Users) (*Allocator, error) {
	if u.PerPod == 0 {
		u.PerPod = unit
	}
	if u.First == 0 {
		u.First = u.PerPod
	}
	most := uint32((uint64(math.MaxUint32) + 1 - uint64(u.First)) / uint64(u.PerPod))
	if u.Pods == 0 {
		u.Pods = most
	}
	switch {
	case u.PerPod%unit != 0:
		return nil, fmt.Errorf("kubelet user namespace length %v is not a multiple of %d", u.PerPod, unit)
	case u.First%u.PerPod != 0:
		return nil, fmt.Errorf("kubelet user assigned ID %v is not a multiple of %v", u.First, u.PerPod)
	case u.Pods > most:
		return nil, fmt.Errorf("kubelet user assigned IDs are not enough to support %v pods", u.Pods)
	}
	a := &Allocator{users: u, taken: map[types.UID]uint32{}, used: map[uint32]types.UID{}}
	for uid, from := range u.Taken {
		if err := a.hold(uid, from); err != nil {
			return nil, err
		}
	}
	a.users.Taken = nil
	return a, nil
}

// Take returns the range of a pod, and allocates one if it has none yet. It fails if none is free or the allocation
// cannot be saved.
func (a *Allocator) Take(uid types.UID) (cri.IDMapping, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if from, ok := a.taken[uid]; ok {
		return a.mapping(from), nil
	}
	for i := range a.users.Pods {
		index := uint32((uint64(a.next) + uint64(i)) % uint64(a.users.Pods))
		from := a.users.First + index*a.users.PerPod
		if _, ok := a.used[from]; ok {
			continue
		}
		a.taken[uid], a.used[from] = from, uid
		if err := a.save(); err != nil {
			delete(a.taken, uid)
			delete(a.used, from)
			return cri.IDMapping{}, err
		}
		a.next = (index + 1) % a.users.Pods
		return a.mapping(from), nil
	}
	return cri.IDMapping{}, errors.New("could not find an empty slot to allocate a user namespace")
}

// Hold records that a pod has the range that starts at from, as the runtime reports for a sandbox from before a
// restart. It fails if there is no such range, another pod has it, or the pod has another range.
func (a *Allocator) Hold(uid types.UID, from uint32) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if have, ok := a.taken[uid]; ok && have == from {
		return nil
	}
	if err := a.hold(uid, from); err != nil {
		return err
	}
	if err := a.save(); err != nil {
		delete(a.taken, uid)
		delete(a.used, from)
		return err
	}
	return nil
}

func (a *Allocator) hold(uid types.UID, from uint32) error {
	switch {
	case from%a.users.PerPod != 0:
		return fmt.Errorf("wrong user namespace offset specified %v", from)
	case from < a.users.First || (from-a.users.First)/a.users.PerPod >= a.users.Pods:
		return fmt.Errorf("id %v is out of range", from)
	}
	if have, ok := a.taken[uid]; ok && have != from {
		return fmt.Errorf("different user namespace range already used by pod %q", uid)
	}
	if other, ok := a.used[from]; ok && other != uid {
		return fmt.Errorf("range picked for pod %q already taken", uid)
	}
	a.taken[uid], a.used[from] = from, uid
	return nil
}

// Release frees a pod's range, if it has one. If that cannot be saved, the range is still free; the error means that it
// may count as taken again after a restart.
func (a *Allocator) Release(uid types.UID) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	from, ok := a.taken[uid]
	if !ok {
		return nil
	}
	delete(a.taken, uid)
	delete(a.used, from)
	return a.save()
}

// Retain releases the ranges of all pods that are not listed.
func (a *Allocator) Retain(pods map[types.UID]bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := len(a.taken)
	for uid, from := range a.taken {
		if !pods[uid] {
			delete(a.taken, uid)
			delete(a.used, from)
		}
	}
	if len(a.taken) == before {
		return nil
	}
	return a.save()
}

func (a *Allocator) save() error {
	if a.users.Save == nil {
		return nil
	}
	return a.users.Save(maps.Clone(a.taken))
}

func (a *Allocator) mapping(from uint32) cri.IDMapping {
	return cri.IDMapping{Host: from, Length: a.users.PerPod}
}
