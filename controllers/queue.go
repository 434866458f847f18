package controllers

import (
	"cmp"
	"container/heap"
	"context"
	"strings"
	"sync"
	"time"
)

// queue hands out keys in the order in which they become due. It holds a key at most once, however often the key is
// added, and does not hand it out while a worker holds it: the key is queued again once that worker is done. The queue
// has no goroutines.
type queue struct {
	batch, offset time.Duration // keys become due only at multiples of batch plus offset

	mu      sync.Mutex
	ready   []Key                  // due, in order
	wanted  map[Key]bool           // due, handed out or not
	active  map[Key]bool           // handed out and not done
	later   delays                 // to become due
	due     map[delayKey]time.Time // when the entries of later become due
	changed chan struct{}          // closed and replaced when the queue has changed
}

var _ Queue = (*queue)(nil)

// delayKey is a key that waits for its batch, or for the delay given to AddAfter. A key may wait for both: adding it
// for now does not cancel the later one.
type delayKey struct {
	Key
	batch bool
}

func newQueue(batch, offset time.Duration) *queue {
	return &queue{
		batch:   batch,
		offset:  offset,
		wanted:  map[Key]bool{},
		active:  map[Key]bool{},
		due:     map[delayKey]time.Time{},
		changed: make(chan struct{}),
	}
}

// Add makes key due now, or with the next batch.
func (q *queue) Add(key Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.batch > 0 {
		q.delay(delayKey{key, true}, time.Now().Add(1))
	} else {
		q.want(key)
	}
	q.signal()
}

// AddAfter makes key due after a delay. The earliest of several delays counts.
func (q *queue) AddAfter(key Key, delay time.Duration) {
	if delay <= 0 {
		q.Add(key)
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.delay(delayKey{key, false}, time.Now().Add(delay))
	q.signal()
}

// delay makes key due at a time unless it is already due earlier; the caller holds the lock.
func (q *queue) delay(key delayKey, at time.Time) {
	at = q.slot(at)
	if had, ok := q.due[key]; ok && !at.Before(had) {
		return
	}
	q.due[key] = at
	heap.Push(&q.later, delayed{key, at})
}

// slot returns the first instant at or after t at which keys may become due.
func (q *queue) slot(t time.Time) time.Time {
	if q.batch == 0 {
		return t
	}
	slot := t.Truncate(q.batch).Add(q.offset % q.batch)
	if slot.Before(t) {
		slot = slot.Add(q.batch)
	}
	return slot
}

// next waits for a due key; it returns false when the context has ended.
func (q *queue) next(ctx context.Context) (Key, bool) {
	for ctx.Err() == nil {
		key, ok, wait, changed := q.poll(time.Now())
		if ok {
			return key, true
		}
		pause(ctx, wait, changed)
	}
	return Key{}, false
}

// pause waits until the context ends, the queue changes or, if wait is not 0, that much time has passed.
func pause(ctx context.Context, wait time.Duration, changed <-chan struct{}) {
	var due <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
	case <-changed:
	case <-due:
	}
}

// poll takes the first due key, or returns how long to wait for the next one (0: no limit). When several keys become
// due at once, as many workers wake, since each waiting worker has a timer for the first.
func (q *queue) poll(now time.Time) (Key, bool, time.Duration, <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.later) > 0 {
		first := q.later[0]
		if first.at.After(now) {
			break
		}
		heap.Pop(&q.later)
		if q.due[first.key].Equal(first.at) { // else superseded by an earlier time
			delete(q.due, first.key)
			q.want(first.key.Key)
		}
	}
	if len(q.ready) > 0 {
		key := q.ready[0]
		q.ready = q.ready[1:]
		delete(q.wanted, key)
		q.active[key] = true
		return key, true, 0, nil
	}
	if len(q.later) > 0 {
		return Key{}, false, q.later[0].at.Sub(now), q.changed
	}
	return Key{}, false, 0, q.changed
}

// done marks the key returned by next as processed. It wakes nobody: the caller calls next again and finds key there if
// it is due again.
func (q *queue) done(key Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.active, key)
	if q.wanted[key] {
		q.ready = append(q.ready, key)
	}
}

// want makes key due; the caller holds the lock.
func (q *queue) want(key Key) {
	if q.wanted[key] {
		return
	}
	q.wanted[key] = true
	if !q.active[key] {
		q.ready = append(q.ready, key)
	}
}

// signal wakes all that wait in next; the caller holds the lock.
func (q *queue) signal() {
	close(q.changed)
	q.changed = make(chan struct{})
}

// delays is a heap of keys by when they become due, then by name.
type delays []delayed

type delayed struct {
	key delayKey
	at  time.Time
}

func (d delays) Len() int { return len(d) }
func (d delays) Less(i, j int) bool {
	if d[i].at.Equal(d[j].at) {
		return cmp.Or(strings.Compare(d[i].key.Namespace, d[j].key.Namespace), strings.Compare(d[i].key.Name, d[j].key.Name)) < 0
	}
	return d[i].at.Before(d[j].at)
}
func (d delays) Swap(i, j int) { d[i], d[j] = d[j], d[i] }
func (d *delays) Push(x any)   { *d = append(*d, x.(delayed)) }
func (d *delays) Pop() any {
	last := (*d)[len(*d)-1]
	*d = (*d)[:len(*d)-1]
	return last
}
