package informer

import "sync"

// queue holds the pending changes of a handler with a goroutine of its own.
type queue[T Object] struct {
	limit int
	wake  chan struct{} // holds one token while there may be something to pop

	mu sync.Mutex
	// items starts with popped items, head in number; base counts those already removed from the slice, so that the
	// number base+n stays valid for items[n].
	items []item[T]
	head  int
	base  int
	gone  int // items after head that were merged away
	// latest is the number of the last change of an object, kept while there are more than limit items.
	latest map[key]int
}

// item is a change, or the mark after the initial objects of a handler.
type item[T Object] struct {
	change Change[T]
	mark   chan struct{}
	// before is the number of the object's previous change, if latest is kept.
	before int
	gone   bool
}

func newQueue[T Object](limit int) *queue[T] {
	return &queue[T]{limit: limit, wake: make(chan struct{}, 1)}
}

// add appends a change, or merges it with a waiting one when too many wait.
func (q *queue[T]) add(c Change[T]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items)-q.head >= q.limit {
		q.index()
		if q.merge(c) {
			return
		}
	}
	q.push(item[T]{change: c})
}

// mark closes done when everything added before has been delivered.
func (q *queue[T]) mark(done chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.push(item[T]{mark: done})
}

func (q *queue[T]) push(it item[T]) {
	if q.latest != nil && it.mark == nil {
		q.file(&it, q.base+len(q.items))
	}
	q.items = append(q.items, it)
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// pop removes the next change or mark.
func (q *queue[T]) pop() (item[T], bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.head < len(q.items) {
		it := q.items[q.head]
		q.items[q.head] = item[T]{}
		q.head++
		q.shrink()
		if it.gone {
			q.gone--
			continue
		}
		return it, true
	}
	return item[T]{}, false
}

// shrink frees the room of popped items, and stops indexing when few wait.
func (q *queue[T]) shrink() {
	waiting := len(q.items) - q.head
	if waiting == 0 && cap(q.items) > 2*q.limit {
		q.base, q.items, q.head = q.base+len(q.items), nil, 0
	} else if q.head > 64 && q.head > waiting {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.base, q.items, q.head = q.base+q.head, q.items[:n], 0
	}
	if waiting <= q.limit/2 {
		q.latest = nil
	}
}

// index builds latest if it is missing.
func (q *queue[T]) index() {
	if q.latest != nil {
		return
	}
	q.latest = map[key]int{}
	for n := q.head; n < len(q.items); n++ {
		if it := &q.items[n]; it.mark == nil && !it.gone {
			q.file(it, q.base+n)
		}
	}
}

// file records it as the latest change of its object, under a number.
func (q *queue[T]) file(it *item[T], name int) {
	k := keyOf(it.change.Object)
	it.before = -1
	if before, ok := q.latest[k]; ok {
		it.before = before
	}
	q.latest[k] = name
}

// merge merges c into the object's last waiting change, if possible.
func (q *queue[T]) merge(c Change[T]) bool {
	k := keyOf(c.Object)
	name, ok := q.latest[k]
	if !ok || name < q.base+q.head {
		return false
	}
	it := &q.items[name-q.base]
	last := &it.change
	switch {
	case last.Type == Deleted || c.Type == Added:
		return false
	case c.Same: // the waiting change has this state already
	case c.Type == Modified:
		last.Object, last.Same = c.Object, false
	case last.Type == Modified:
		*last = c
	default: // added and deleted again
		before := it.before
		*it = item[T]{gone: true}
		q.gone++
		if before >= q.base+q.head {
			q.latest[k] = before
		} else {
			delete(q.latest, k)
		}
		q.compact()
	}
	return true
}

// compact drops merged items once they are the majority.
func (q *queue[T]) compact() {
	waiting := len(q.items) - q.head
	if q.gone <= q.limit || 2*q.gone < waiting {
		return
	}
	kept := make([]item[T], 0, waiting-q.gone)
	for _, it := range q.items[q.head:] {
		if !it.gone {
			kept = append(kept, it)
		}
	}
	q.base, q.items, q.head, q.gone, q.latest = q.base+len(q.items), kept, 0, 0, nil
}

// drain passes changes to the handler until it is stopped.
func (s *subscription[T]) drain() {
	for {
		select {
		case <-s.stop:
			return
		case <-s.queue.wake:
		}
		for it, ok := s.queue.pop(); ok; it, ok = s.queue.pop() {
			select {
			case <-s.stop:
				return
			default:
			}
			switch {
			case s.removed.Load():
				return
			case it.mark != nil:
				close(it.mark)
			default:
				s.call(it.change)
			}
		}
	}
}
