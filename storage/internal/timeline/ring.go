package timeline

// ring is a queue of changes with consecutive revisions. It grows by doubling up to its limit.
type ring struct {
	items []Change
	head  int // of the oldest
	count int
	limit int
}

// push adds a change; there must be room, that is, fewer than limit changes.
func (r *ring) push(c Change) {
	if r.count == len(r.items) {
		r.grow()
	}
	r.items[r.slot(r.count)] = c
	r.count++
}

func (r *ring) pop() Change {
	oldest := r.items[r.head]
	r.items[r.head] = Change{}
	r.head = r.slot(1)
	r.count--
	return oldest
}

// copyTo fills dst with changes after a revision, as many as there are and fit, and returns
// their number. Every change after the revision must be in the ring, or not have happened yet.
func (r *ring) copyTo(dst []Change, after int64) int {
	if r.count == 0 {
		return 0
	}
	skip := max(0, int(after+1-r.items[r.head].Revision))
	n := min(len(dst), r.count-skip)
	if n <= 0 {
		return 0
	}
	start := r.slot(skip)
	copied := copy(dst[:n], r.items[start:])
	copy(dst[copied:n], r.items)
	return n
}

func (r *ring) slot(i int) int {
	if i += r.head; i >= len(r.items) {
		i -= len(r.items)
	}
	return i
}

func (r *ring) grow() {
	bigger := make([]Change, min(r.limit, max(64, 2*len(r.items))))
	copied := copy(bigger, r.items[r.head:])
	copy(bigger[copied:], r.items[:r.head])
	r.items, r.head = bigger, 0
}
