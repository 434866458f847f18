// Package fair decides who is served next when not all can be served at once: how many seats a user may take, and
// what is kept for those without whom a cluster stops.
//
// It stands in for API Priority and Fairness, whose default levels it has, without the queues: who gets no seat is told
// so at once. A Seats is safe for concurrent use.
//
// Source: https://kubernetes.io/docs/concepts/cluster-administration/flow-control/
package fair

import "sync"

// Level is a class of requests. Each keeps some seats that no other can take.
type Level int

// The levels, upstream's priority levels of these names but for the last.
const (
	// System is for what nodes ask, but for NodeHigh.
	System Level = iota
	// NodeHigh is for what nodes tell of themselves: without it they count as lost.
	NodeHigh
	// LeaderElection is for the leases of controllers and schedulers.
	LeaderElection
	// WorkloadHigh is for controllers and schedulers.
	WorkloadHigh
	// WorkloadLow is for other service accounts.
	WorkloadLow
	// GlobalDefault is for people.
	GlobalDefault
	// Strangers is for who has not authenticated. They take nothing but what is kept for them, which is upstream's
	// catch-all.
	Strangers

	levels = int(Strangers) + 1
)

// allShares is what the shares of upstream's levels sum up to.
const allShares = 245

// Kept is how many of so many seats no other level can take: upstream's shares, less what the level lends.
func (l Level) Kept(seats int) int {
	shares := [levels]int{
		System: 20, NodeHigh: 30, LeaderElection: 10, WorkloadHigh: 20, WorkloadLow: 10, GlobalDefault: 10, Strangers: 5,
	}
	return seats * shares[l] / allShares
}

// Flow is whose request it is; those of a flow compete with each other, not with others'.
type Flow struct {
	Level Level
	// Name is the user, or what else a fair share is for.
	Name string
}

// Holdings is who has seats.
type Holdings struct {
	Max    int         // how many seats there are
	Levels [levels]int // how many of them each level has
	Own    int         // of these, the flow's that asks
}

// Admits tells whether a flow of level l may take one more seat: only as long as it has fewer than it leaves for others
// who come. So one alone gets half of what is free for its level, two a third each, and there is always some left
// for who comes new.
func (h *Holdings) Admits(l Level) bool {
	room := h.Max
	for i, n := range h.Levels {
		if other := Level(i); other != l {
			n = max(n, other.Kept(h.Max))
		}
		room -= n
	}
	if l == Strangers {
		return room > 0 && h.Levels[l] < max(1, l.Kept(h.Max))
	}
	return h.Own < room
}

// Seats are what is given out. Make one with New.
type Seats struct {
	max int

	mu    sync.Mutex
	taken [levels]int
	flows map[Flow]int // without zeros
}

// New returns so many seats, all free; below 0 there is no end of them.
func New(seats int) *Seats { return &Seats{max: seats, flows: map[Flow]int{}} }

// Take takes a seat for a flow, or tells that it gets none now. Whoever got one gives it back with Leave.
func (s *Seats) Take(f Flow) bool {
	if s.max < 0 {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h := Holdings{Max: s.max, Levels: s.taken, Own: s.flows[f]}
	if !h.Admits(f.Level) {
		return false
	}
	s.taken[f.Level]++
	s.flows[f]++
	return true
}

// Leave gives back a seat that the flow took.
func (s *Seats) Leave(f Flow) {
	if s.max < 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken[f.Level]--
	if s.flows[f]--; s.flows[f] == 0 {
		delete(s.flows, f)
	}
}
