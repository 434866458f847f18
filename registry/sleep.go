package registry

import (
	"context"
	"runtime"
	"sync"
	"time"
)

const (
	// maxDimensions bounds by how many labels and fields sleepers are told apart.
	maxDimensions = 16
	// crowd is how many sleepers the writer of a change wakes itself, and how many are woken at once of those that
	// are left to the herd.
	crowd = 16
	// headStart is what a change's writer has before the herd, and how long the herd gathers changes.
	headStart = 2 * time.Millisecond
)

// sleepers are the watches of a table that wait for a change. Each sleeps with others to whom the same
// changes matter: those of pods on one node, say. So a change wakes those only whom it may concern.
type sleepers struct {
	herd *herd

	mu         sync.Mutex
	count      int
	all        *group // to whom every change matters
	dimensions map[string]*dimension
}

// dimension is what sleepers are told apart by: a term's name and how its value is found.
type dimension struct {
	term
	groups map[string]*group
}

// group is a list of sleepers. Once it is woken it takes in no more.
type group struct {
	first, last *sleeper
	count       int
	woken       bool
	by          int64 // the change that woke it
	dimension   *dimension
	value       string
}

// sleeper is a watch that waits, or may.
type sleeper struct {
	prev, next *sleeper
	group      *group // nil: awake
	by         int64  // the change that woke it
	wake       chan struct{}
}

// bed is where a watch sleeps; name and get are unset where every change matters.
func bed(kind *Kind, s Selection) term {
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

// add lets a watch that has seen all changes sleep. The caller holds the table's lock.
func (s *sleepers) add(w *sleeper, where term) {
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

func (s *sleepers) groupOf(where term) *group {
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

// rise ends a sleep, whether it was ended already or not, and returns the first change that may matter to the
// watch: that which woke it, or now, the next one. The caller holds the table's lock.
func (s *sleepers) rise(w *sleeper, now int64) int64 {
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

func (s *sleepers) unlink(w *sleeper) {
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

// detach takes a group out of where sleepers go.
func (s *sleepers) detach(g *group) {
	d := g.dimension
	if d == nil {
		s.all = nil
		return
	}
	if delete(d.groups, g.value); len(d.groups) == 0 {
		delete(s.dimensions, d.name)
	}
}

// tell wakes those whom a change may concern. Many are left to the herd: whoever waits for the change to be
// seen, such as its writer, does not wait for them. The caller holds the table's lock for writing.
func (s *sleepers) tell(c change, seq int64) {
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
		if g.count <= crowd {
			s.wake(g)
		} else {
			s.herd.add(s, g)
		}
	}
}

// expel wakes all, to find that what they wait for is no longer told. The caller holds the table's lock for
// writing.
func (s *sleepers) expel() {
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
		s.herd.add(s, g)
	}
}

// wake wakes a crowd of a group, and tells whether there are more.
func (s *sleepers) wake(g *group) bool {
	for n := 0; n < crowd && g.first != nil; n++ {
		w := g.first
		s.unlink(w)
		w.by = g.by
		w.wake <- struct{}{} // has room: it is empty while the watch sleeps
	}
	return g.first != nil
}

// herd wakes large groups, crowd by crowd, and lets all that can run go first each time: who answers
// a request never stands behind a thousand watches.
type herd struct {
	some chan struct{} // has room for one

	mu    sync.Mutex
	queue []herded
}

type herded struct {
	sleepers *sleepers
	group    *group
}

func newHerd() *herd { return &herd{some: make(chan struct{}, 1)} }

func (h *herd) add(s *sleepers, g *group) {
	h.mu.Lock()
	h.queue = append(h.queue, herded{s, g})
	h.mu.Unlock()
	select {
	case h.some <- struct{}{}:
	default:
	}
}

// run wakes until the context ends, and then all that are left.
func (h *herd) run(ctx context.Context) {
	pause := time.NewTimer(headStart)
	defer pause.Stop()
	for ctx.Err() == nil {
		select {
		case <-h.some:
			pause.Reset(headStart)
			select {
			case <-pause.C:
			case <-ctx.Done():
			}
		case <-ctx.Done():
		}
		h.drive()
	}
}

func (h *herd) drive() {
	for {
		h.mu.Lock()
		queue := h.queue
		h.queue = nil
		h.mu.Unlock()
		if len(queue) == 0 {
			return
		}
		for _, q := range queue {
			for more := true; more; {
				q.sleepers.mu.Lock()
				more = q.sleepers.wake(q.group)
				q.sleepers.mu.Unlock()
				runtime.Gosched()
			}
		}
	}
}
