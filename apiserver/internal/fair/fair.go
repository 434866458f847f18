// Package fair shares a limited number of seats, places among the requests being served, fairly among users, and reserves
// some for the components that a cluster cannot do without.
//
// It takes the place of API Priority and Fairness. It has the same default levels, but no queues: a request that gets no
// seat is refused at once. A Seats is safe for concurrent use.
//
// Source: https://kubernetes.io/docs/concepts/cluster-administration/flow-control/
package fair

import "sync"

// Level is a priority level: a class of requests with some seats that no other level can take.
type Level int

// The levels. They are upstream's priority levels of these names, except for the last.
const (
	// System is for requests of nodes other than those of NodeHigh.
	System Level = iota
	// NodeHigh is for the status and the leases of nodes: without them a node counts as lost.
	NodeHigh
	// LeaderElection is for the leases of controllers and schedulers.
	LeaderElection
	// WorkloadHigh is for controllers and schedulers.
	WorkloadHigh
	// WorkloadLow is for other service accounts.
	WorkloadLow
	// GlobalDefault is for people.
	GlobalDefault
	// Strangers is for users who have not authenticated. They have no seats but those reserved for them, which are those of
	// upstream's catch-all.
	Strangers

	levels = int(Strangers) + 1
)

// allShares is the sum of the shares of upstream's levels.
const allShares = 245

// Kept is how many of so many seats are reserved for the level: upstream's shares, less what the level lends.
func (l Level) Kept(seats int) int {
	shares := [levels]int{
		System: 20, NodeHigh: 30, LeaderElection: 10, WorkloadHigh: 20, WorkloadLow: 10, GlobalDefault: 10, Strangers: 5,
	}
	return seats * shares[l] / allShares
}

// Flow is what gets a fair share of a level's seats, such as the requests of one user.
type Flow struct {
	// Level is the priority level of its requests.
	Level Level
	// Name tells it from other flows of the level: a user, or a namespace of service accounts.
	Name string
}

// Holdings are the seats that are taken.
type Holdings struct {
	Max    int         // all seats, taken or free
	Levels [levels]int // taken, by level
	Own    int         // taken by the flow that asks for one more
}

// Admits tells whether a flow of level l may take one more seat: only as long as it has fewer seats than it leaves free. So a
// single flow gets half of what is free for its level, two get a third each, and there is always something left for a new
// one.
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

// Seats are a number of seats, some of them taken. Make one with New.
type Seats struct {
	max int

	mu    sync.Mutex
	taken [levels]int
	flows map[Flow]int // without zeros
}

// New returns so many seats, all of them free; below 0 their number is not limited.
func New(seats int) *Seats { return &Seats{max: seats, flows: map[Flow]int{}} }

// Take takes a seat for a flow, or returns false if it can have none now. A seat that was taken must be given back by Leave.
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
