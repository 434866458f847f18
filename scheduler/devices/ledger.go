package devices

import (
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured/schedulerapi"
	"k8s.io/utils/ptr"
)

// ledger has the allocations of claims that count: those in the API, and those on their way there.
type ledger struct {
	entries  map[types.UID]entry
	whole    map[schedulerapi.DeviceID]int
	shares   map[schedulerapi.SharedDeviceID]int
	consumed schedulerapi.ConsumedCapacityCollection
}

// entry is the allocation of one claim.
type entry struct {
	claim *resourcev1.ResourceClaim
	// since is the version of the claim that has the allocation in the API; 0 means that it is not written yet.
	since uint64
}

func newLedger() ledger {
	return ledger{
		entries: map[types.UID]entry{}, whole: map[schedulerapi.DeviceID]int{}, shares: map[schedulerapi.SharedDeviceID]int{},
		consumed: schedulerapi.NewConsumedCapacityCollection(),
	}
}

// observe takes a state of a claim from the API.
func (l *ledger) observe(c *resourcev1.ResourceClaim) {
	e, ok := l.entries[c.UID]
	switch {
	case c.Status.Allocation != nil:
		l.add(c, version(c))
	case !ok || e.since == 0 || version(c) < e.since: // nothing, a reservation, or a state before it was written
	default:
		l.remove(c.UID)
	}
}

// add notes the allocation of a claim in place of what the claim had.
func (l *ledger) add(c *resourcev1.ResourceClaim, since uint64) {
	l.remove(c.UID)
	l.entries[c.UID] = entry{c, since}
	l.count(c, 1)
}

// remove forgets the allocation of a claim.
func (l *ledger) remove(uid types.UID) {
	if e, ok := l.entries[uid]; ok {
		delete(l.entries, uid)
		l.count(e.claim, -1)
	}
}

// count adds the devices of a claim n times. Access for administration takes nothing from others.
func (l *ledger) count(c *resourcev1.ResourceClaim, n int) {
	for i := range c.Status.Allocation.Devices.Results {
		r := &c.Status.Allocation.Devices.Results[i]
		if ptr.Deref(r.AdminAccess, false) {
			continue
		}
		id := schedulerapi.MakeDeviceID(r.Driver, r.Pool, r.Device)
		if r.ShareID == nil {
			add(l.whole, id, n)
			continue
		}
		add(l.shares, schedulerapi.MakeSharedDeviceID(id, r.ShareID), n)
		if r.ConsumedCapacity == nil {
			continue
		}
		consumed := schedulerapi.NewDeviceConsumedCapacity(id, r.ConsumedCapacity)
		if n > 0 {
			l.consumed.Insert(consumed)
		} else {
			l.consumed.Remove(consumed)
		}
	}
}

func add[K comparable](counts map[K]int, key K, n int) {
	if counts[key] += n; counts[key] == 0 {
		delete(counts, key)
	}
}

// state returns what is allocated, in a copy.
func (l *ledger) state() schedulerapi.AllocatedState {
	return schedulerapi.AllocatedState{
		AllocatedDevices: sets.KeySet(l.whole), AllocatedSharedDeviceIDs: sets.KeySet(l.shares), AggregatedCapacity: l.consumed.Clone(),
	}
}
