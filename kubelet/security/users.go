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

const unit = 1 << 16 // users that a pod has at least, and ranges are multiples of

// Users are the users of the node that are handed out to pods. The zero value is upstream's: all
// but the first 65536, in ranges of 65536. Two kubelets on one machine need ranges apart.
type Users struct {
	// First is the first user, PerPod how many a pod gets, both multiples of 65536. First is at
	// least PerPod: the node's own users are never handed out.
	First, PerPod uint32
	// Pods is how many pods can have users of their own.
	Pods uint32
	// Taken are the ranges that pods have already, by their first users.
	Taken map[types.UID]uint32
	// Save writes down which pods have which ranges, before a pod gets a new one and after one is
	// given back; nil forgets. It must not keep the map.
	Save func(map[types.UID]uint32) error
}

// Allocator hands out ranges of users, each to one pod. Make one with NewAllocator.
type Allocator struct {
	users Users

	mu    sync.Mutex
	taken map[types.UID]uint32
	used  map[uint32]types.UID
	next  uint32 // number of the range to look at first: what was given back rests a while
}

// NewAllocator makes an Allocator. It fails when the ranges make no sense, or ranges that are taken
// are not among them or taken twice.
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

// Take returns the range of a pod, a free one when it has none yet. It fails when none is free or
// it cannot be written down.
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

// Hold notes that a pod has the users from the first one on, as a runtime says of a sandbox that
// was there before. It fails when that is none of the ranges, another pod has it, or the pod has
// another.
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

// Release takes a pod's range back. A pod without one is fine. When that cannot be written down the
// range is free all the same: the error says that it may be taken again after a restart.
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

// Retain releases the ranges of all pods but those that are listed.
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
