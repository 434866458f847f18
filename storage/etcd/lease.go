package etcd

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// leases shares a lease among many writes with the same time to live: to etcd a lease costs more than a record.
type leases struct {
	grant func(context.Context, time.Duration) (clientv3.LeaseID, error)
	now   func() time.Time

	turn chan struct{} // holds one token: its holder may read the fields, and ask for a lease
	mu   sync.Mutex
	last map[time.Duration]lease
}

// lease ends no later than etcd's own end of it.
type lease struct {
	id    clientv3.LeaseID
	until time.Time
	uses  int
}

const (
	leaseUses   = 1000 // more would make the lease's end one huge change
	leaseSpare  = time.Minute
	leaseKinds  = 64 // distinct times to live
	sparePart   = 20
	shortestTTL = time.Second
	longestTTL  = 100 * 365 * 24 * time.Hour // etcd takes a little more
)

func newLeases(grant func(context.Context, time.Duration) (clientv3.LeaseID, error), now func() time.Time) *leases {
	return &leases{grant: grant, now: now, turn: make(chan struct{}, 1), last: map[time.Duration]lease{}}
}

// take returns a lease that lasts for ttl or a little longer, and whether it is new.
func (l *leases) take(ctx context.Context, ttl time.Duration) (clientv3.LeaseID, bool, error) {
	ttl = (min(max(ttl, shortestTTL), longestTTL) + time.Second - 1).Truncate(time.Second)
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return 0, false, ctx.Err()
	}
	now := l.now()
	if id, ok := l.reuse(ttl, now); ok {
		return id, false, nil
	}
	long := ttl + min(ttl/sparePart, leaseSpare).Truncate(time.Second)
	id, err := l.grant(ctx, long)
	if err != nil {
		return 0, false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(now)
	l.last[ttl] = lease{id: id, until: now.Add(long), uses: 1} // etcd counts from a later moment than now
	return id, true, nil
}

func (l *leases) reuse(ttl time.Duration, now time.Time) (clientv3.LeaseID, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	last, ok := l.last[ttl]
	if !ok || last.uses >= leaseUses || now.Add(ttl).After(last.until) {
		return 0, false
	}
	last.uses++
	l.last[ttl] = last
	return last.id, true
}

// forget makes room: it drops used-up leases or, if too many are left, all of them.
func (l *leases) forget(now time.Time) {
	if len(l.last) < leaseKinds {
		return
	}
	for ttl, lease := range l.last {
		if now.Add(ttl).After(lease.until) {
			delete(l.last, ttl)
		}
	}
	if len(l.last) >= leaseKinds {
		clear(l.last)
	}
}

// drop forgets a lease that etcd no longer knows.
func (l *leases) drop(id clientv3.LeaseID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for ttl, lease := range l.last {
		if lease.id == id {
			delete(l.last, ttl)
		}
	}
}
