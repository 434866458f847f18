package registry

import "sort"

// history is the latest changes of a table, bounded in number and in the stored size of the states that they
// keep in memory.
type history struct {
	most      int
	mostBytes int64

	ring   []change
	first  int   // index in ring of the oldest change
	count  int   // number of changes
	bytes  int64 // their total size
	base   int64 // sequence number of the oldest change
	oldest int64 // all changes after this revision are here
}

// end returns the sequence number of the next change.
func (h *history) end() int64 { return h.base + int64(h.count) }

// entry returns a change by its sequence number.
func (h *history) entry(seq int64) change {
	return h.ring[(h.first+int(seq-h.base))%len(h.ring)]
}

// add adds a change and drops the oldest as the bounds require. It always keeps the newest.
func (h *history) add(c change) {
	if h.count == h.most {
		h.forget()
	}
	if h.count == len(h.ring) {
		h.grow()
	}
	h.ring[(h.first+h.count)%len(h.ring)] = c
	h.count++
	h.bytes += int64(c.item.size)
	for h.bytes > h.mostBytes && h.count > 1 {
		h.forget()
	}
}

func (h *history) grow() {
	ring := make([]change, min(max(2*len(h.ring), 16), h.most))
	for i := range h.count {
		ring[i] = h.entry(h.base + int64(i))
	}
	h.ring, h.first = ring, 0
}

// forget drops the oldest change.
func (h *history) forget() {
	c := h.ring[h.first]
	h.ring[h.first] = change{}
	h.first = (h.first + 1) % len(h.ring)
	h.count--
	h.base++
	h.bytes -= int64(c.item.size)
	h.oldest = c.item.Revision
}

// forgetUntil drops the changes up to a revision.
func (h *history) forgetUntil(revision int64) {
	for h.count > 0 && h.entry(h.base).item.Revision <= revision {
		h.forget()
	}
	if h.count == 0 {
		h.ring, h.first = nil, 0
	}
}

// restart drops everything and begins after revision; watches that had read everything lose their place, too.
func (h *history) restart(revision int64) {
	h.base = h.end() + 1
	h.ring, h.first, h.count, h.bytes, h.oldest = nil, 0, 0, 0, revision
}

// since returns the sequence number of the first change after revision, or false if changes after it may have
// been dropped.
func (h *history) since(revision int64) (int64, bool) {
	if revision < h.oldest {
		return 0, false
	}
	n := sort.Search(h.count, func(i int) bool {
		return h.entry(h.base+int64(i)).item.Revision > revision
	})
	return h.base + int64(n), true
}
