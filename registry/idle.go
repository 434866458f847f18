package registry

import (
	"context"
	"runtime"
	"sync"
	"time"
)

const (
	// maxDimensions limits the number of labels and fields by which idle watches are grouped.
	maxDimensions = 16
	// wakeBatch is how many watches a writer wakes itself, and how many the waker wakes at a time.
	wakeBatch = 16
	// headStart is how long the waker collects changes before it begins, so that the writer of a change can
	// proceed first.
	headStart = 2 * time.Millisecond
)

// idleWatches are the waiting watches of a table, grouped by the changes that they select: those of the pods of
// one node, say. So a change wakes only watches that it may concern.
type idleWatches struct {
	waker *waker

	mu         sync.Mutex
	count      int
	all        *group // those that select every change
	dimensions map[string]*dimension
}

// dimension is a label or field by which idle watches are grouped, and how to get its value.
type dimension struct {
	term
	groups map[string]*group
}

// group is a list of idle watches. Once woken it accepts no more.
type group struct {
	first, last *idleWatch
	count       int
	woken       bool
	by          int64 // the change that woke it
	dimension   *dimension
	value       string
}

// idleWatch is the waiting state of a watch.
type idleWatch struct {
	prev, next *idleWatch
	group      *group // nil: not waiting
	by         int64  // the change that woke it
	wake       chan struct{}
}

// interest returns the term by which to group a watch; its name and get are unset if the watch selects every
// change.
func interest(kind *Kind, s Selection) term {
	if name, ok := s.exactName(); ok && (s.Namespace != "" || !kind.Namespaced) {
		key := indexKey(s.Namespace, name)
		return term{"key", key, func(o Object) (string, bool) { return indexKey(o.GetNamespace(), o.GetName()), true }}
	}
	if all, _ := terms(kind, s); len(all) > 0 {
		return all[0]
	}
	if s.Namespace != "" {
		return term{"namespace", s.Namespace, func(o Object) (string, bool) { return o.GetNamespace(), true }}
	}
	return term{}
}

// add makes a watch that has seen all changes wait. The caller holds the table's lock.
func (s *idleWatches) add(w *idleWatch, where term) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.groupOf(where)
	w.group, w.prev, w.next = g, g.last, nil
	if g.last == nil {
		g.first = w
	} else {
		g.last.next = w
	}
	g.last = w
	g.count++
	s.count++
}

func (s *idleWatches) groupOf(where term) *group {
	d := s.dimensions[where.name]
	if d == nil && where.get != nil && len(s.dimensions) < maxDimensions {
		d = &dimension{term: where, groups: map[string]*group{}}
		if s.dimensions == nil {
			s.dimensions = map[string]*dimension{}
		}
		s.dimensions[where.name] = d
	}
	if d == nil {
		if s.all == nil {
			s.all = &group{}
		}
		return s.all
	}
	g := d.groups[where.value]
	if g == nil {
		g = &group{dimension: d, value: where.value}
		d.groups[where.value] = g
	}
	return g
}

// remove ends a wait, even if a change has ended it already, and returns the first change that may concern the
// watch: the one that woke it, or now, the next one. The caller holds the table's lock.
func (s *idleWatches) remove(w *idleWatch, now int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := w.group
	if g == nil {
		<-w.wake
		return w.by
	}
	s.unlink(w)
	if g.woken {
		return g.by
	}
	if g.count == 0 {
		s.detach(g)
	}
	return now
}

func (s *idleWatches) unlink(w *idleWatch) {
	g := w.group
	if w.prev == nil {
		g.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		g.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.group, w.prev, w.next = nil, nil, nil
	g.count--
	s.count--
}

// detach closes a group: later watches get a new one.
func (s *idleWatches) detach(g *group) {
	d := g.dimension
	if d == nil {
		s.all = nil
		return
	}
	if delete(d.groups, g.value); len(d.groups) == 0 {
		delete(s.dimensions, d.name)
	}
}

// notify wakes the watches that a change may concern. It leaves large groups to the waker, so that the writer
// does not wait for them. The caller holds the table's lock for writing.
func (s *idleWatches) notify(c change, seq int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count == 0 {
		return
	}
	var concerned [2*maxDimensions + 1]*group
	found := concerned[:0]
	if s.all != nil {
		found = append(found, s.all)
	}
	for _, d := range s.dimensions {
		is, has := d.get(c.item.Object)
		if g := d.groups[is]; has && g != nil {
			found = append(found, g)
		}
		if c.prev == nil {
			continue
		}
		was, had := d.get(c.prev.Object)
		if g := d.groups[was]; had && g != nil && (!has || was != is) {
			found = append(found, g)
		}
	}
	for _, g := range found {
		s.detach(g)
		g.woken, g.by = true, seq
		if g.count <= wakeBatch {
			s.wake(g)
		} else {
			s.waker.add(s, g)
		}
	}
}

// wakeAll wakes all watches because the log has restarted and their positions in it are invalid. The caller
// holds the table's lock for writing.
func (s *idleWatches) wakeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*group
	if s.all != nil {
		all = append(all, s.all)
	}
	for _, d := range s.dimensions {
		for _, g := range d.groups {
			all = append(all, g)
		}
	}
	for _, g := range all {
		s.detach(g)
		g.woken, g.by = true, -1
		s.waker.add(s, g)
	}
}

// wake wakes a batch of a group and reports whether more are waiting.
func (s *idleWatches) wake(g *group) bool {
	for n := 0; n < wakeBatch && g.first != nil; n++ {
		w := g.first
		s.unlink(w)
		w.by = g.by
		w.wake <- struct{}{} // never blocks: empty while the watch waits
	}
	return g.first != nil
}

// waker wakes large groups batch by batch, and yields in between: a response never waits for a thousand
// watches.
type waker struct {
	some chan struct{} // capacity 1

	mu    sync.Mutex
	queue []wakeup
}

type wakeup struct {
	watches *idleWatches
	group   *group
}

func newWaker() *waker { return &waker{some: make(chan struct{}, 1)} }

func (w *waker) add(s *idleWatches, g *group) {
	w.mu.Lock()
	w.queue = append(w.queue, wakeup{s, g})
	w.mu.Unlock()
	select {
	case w.some <- struct{}{}:
	default:
	}
}

// run wakes groups until the context ends, and then all that are left.
func (w *waker) run(ctx context.Context) {
	pause := time.NewTimer(headStart)
	defer pause.Stop()
	for ctx.Err() == nil {
		select {
		case <-w.some:
			pause.Reset(headStart)
			select {
			case <-pause.C:
			case <-ctx.Done():
			}
		case <-ctx.Done():
		}
		w.drain()
	}
}

func (w *waker) drain() {
	for {
		w.mu.Lock()
		queue := w.queue
		w.queue = nil
		w.mu.Unlock()
		if len(queue) == 0 {
			return
		}
		for _, q := range queue {
			for more := true; more; {
				q.watches.mu.Lock()
				more = q.watches.wake(q.group)
				q.watches.mu.Unlock()
				runtime.Gosched()
			}
		}
	}
}
