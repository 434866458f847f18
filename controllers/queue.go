package controllers

import (
	"cmp"
	"container/heap"
	"context"
	"strings"
	"sync"
	"time"
)

// queue hands out keys in the order in which they became due. A key is in it once, however often
// it is added, and is not handed out while somebody works on it: it comes again when that one is
// done. It has no goroutines.
type queue struct {
	batch, offset time.Duration // keys become due only at multiples of batch plus offset

	mu      sync.Mutex
	ready   []Key                  // due, in order
	wanted  map[Key]bool           // due, handed out or not
	active  map[Key]bool           // handed out and not done
	later   delays                 // to become due
	due     map[delayKey]time.Time // when those in later do
	changed chan struct{}          // closed and replaced when there is something new to look at
}

var _ Queue = (*queue)(nil)

// delayKey is a key that waits for its batch, or for a delay that it was added with. It may do
// both at once, so that what is added for later is not forgotten over what is added for now.
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

// AddAfter makes key due after a delay. Of several such delays the one that ends first counts.
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

// delay makes key due at a time, or earlier if it already is to be; the caller holds the lock.
func (q *queue) delay(key delayKey, at time.Time) {
	at = q.slot(at)
	if had, ok := q.due[key]; ok && !at.Before(had) {
		return
	}
	q.due[key] = at
	heap.Push(&q.later, delayed{key, at})
}

// slot returns the first instant from t on at which keys may become due.
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

// next waits for a key that is due; it returns false when the context has ended.
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

// pause waits for the context, for a change, and if wait is not 0 no longer than that.
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

// poll takes the first due key, or says how long until there may be one (0 is for ever). Several
// that become due at once wake as many workers, since whoever waits has a timer for the first.
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

// done ends the work on a key that next returned. Who calls it asks for the next one, and finds
// key there if it is wanted again: nobody else need wake.
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

// signal wakes whoever waits in next; the caller holds the lock.
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
