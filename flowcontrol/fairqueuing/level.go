package fairqueuing

import (
	"maps"
	"slices"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"github.com/keelson-dev/keelson/flowcontrol"
)

// flowKey names a flow.
type flowKey struct{ schema, name string }

// request is one that has a seat or waits for it.
type request struct {
	flow    flowKey
	from    *queue        // the queue it is charged to, if it has waited
	queue   *queue        // where it waits
	granted chan struct{} // closed when it gets its seat; nil if it had not to wait
	began   time.Time     // when it came, and then when it got its seat
}

// queue has requests that wait, the longest first.
type queue struct {
	waiting []*request
	// next is the virtual time at which its next request begins: the service that each queue has had, had they all been
	// served alike.
	next float64
	// turn is when it was last served, for those with the same time.
	turn uint64
}

// level is a priority level with its requests. It is guarded by the Limiter's lock.
type level struct {
	spec   *flowcontrolv1.PriorityLevelConfiguration
	limits flowcontrol.Limits
	limit  int // how many seats there are now
	exempt bool
	gone   bool // no longer configured

	// queuing says how many queues there are, 0 if none. Those that never had a request are not in queues: there may be
	// millions. active are those with requests, also such as there are no more.
	queuing flowcontrolv1.QueuingConfiguration
	queues  map[int]*queue
	active  []*queue

	serving, waiting int
	flows            map[flowKey]int // seats, without zeros
	virtual          float64         // the virtual time of the request that was last granted
	turns            uint64
	demand           demand
	patience         patience
}

func newLevel(now time.Time) *level {
	return &level{flows: map[flowKey]int{}, queues: map[int]*queue{}, demand: demand{since: now, began: now}}
}

// guess is what a request is expected to take, in seconds, until it has ended.
const guess = 0.003

// set gives the level another spec. Requests in queues stay there.
func (l *level) set(spec *flowcontrolv1.PriorityLevelConfiguration, limits flowcontrol.Limits) {
	l.spec, l.limits, l.exempt = spec, limits, spec.Spec.Exempt != nil
	l.queuing = flowcontrolv1.QueuingConfiguration{}
	if limited := spec.Spec.Limited; limited != nil && limited.LimitResponse.Queuing != nil {
		l.queuing = *limited.LimitResponse.Queuing
	}
	maps.DeleteFunc(l.queues, func(i int, _ *queue) bool { return i >= int(l.queuing.Queues) })
}

// room reports whether a flow may take one more seat: as long as it has fewer than it leaves free, if flows are told apart.
// A level that has lent all that it had still serves one request at a time.
func (l *level) room(flow flowKey) bool {
	free := max(l.limit, 1) - l.serving
	return l.exempt || free > 0 && (flow.name == "" || l.flows[flow] < free)
}

// enter gives the request a seat, puts it into a queue or says why neither.
func (l *level) enter(w *request, hash uint64, now time.Time) flowcontrol.Reason {
	if len(l.active) == 0 && l.room(w.flow) {
		l.take(w, now)
		return ""
	}
	if l.queuing.Queues == 0 {
		if !l.room(w.flow) {
			return flowcontrol.ConcurrencyLimit
		}
		l.take(w, now)
		return ""
	}
	q := l.shortest(hash)
	if len(q.waiting) >= int(l.queuing.QueueLengthLimit) && !l.room(w.flow) {
		return flowcontrol.QueueFull
	}
	if len(q.waiting) == 0 {
		q.next = max(q.next, l.virtual)
		l.active = append(l.active, q)
	}
	w.queue, w.granted = q, make(chan struct{})
	q.waiting = append(q.waiting, w)
	l.waiting++
	l.demand.set(l.serving+l.waiting, now)
	l.dispatch(now)
	if w.queue == nil {
		w.granted = nil // it has not waited
	}
	return ""
}

// shortest returns the queue with the fewest requests of those that a flow may choose from.
func (l *level) shortest(hash uint64) *queue {
	var hand [16]int
	var best *queue
	for _, i := range flowcontrol.Hand(hand[:0], hash, int(l.queuing.Queues), int(l.queuing.HandSize)) {
		q := l.queues[i]
		if q == nil {
			q = &queue{}
			l.queues[i] = q
		}
		if best == nil || len(q.waiting) < len(best.waiting) {
			best = q
		}
	}
	return best
}

// take gives the request a seat.
func (l *level) take(w *request, now time.Time) {
	w.began = now
	l.serving++
	l.flows[w.flow]++
	l.demand.set(l.serving+l.waiting, now)
}

// dispatch gives seats to waiting requests for as long as there are any: to those of the queue that has had the least.
func (l *level) dispatch(now time.Time) {
	for l.serving < max(l.limit, 1) || l.exempt {
		q, at := l.choose()
		if q == nil {
			return
		}
		w := q.waiting[at]
		l.unqueue(w, at)
		l.virtual = max(l.virtual, q.next)
		q.next += guess
		l.turns++
		w.from, q.turn = q, l.turns
		l.take(w, now)
		close(w.granted)
	}
}

// choose returns the queue whose turn it is, and its first request whose flow has room.
func (l *level) choose() (best *queue, at int) {
	for _, q := range l.active {
		if best != nil && (q.next > best.next || q.next == best.next && q.turn > best.turn) {
			continue
		}
		if i := l.first(q); i >= 0 {
			best, at = q, i
		}
	}
	return best, at
}

// first is the first request of a queue whose flow has room, or -1. Most queues have requests of one flow only.
func (l *level) first(q *queue) int {
	var full flowKey
	for i, w := range q.waiting {
		if i > 0 && w.flow == full {
			continue
		}
		if l.room(w.flow) {
			return i
		}
		full = w.flow
	}
	return -1
}

// unqueue takes a request out of its queue.
func (l *level) unqueue(w *request, at int) {
	q := w.queue
	q.waiting = slices.Delete(q.waiting, at, at+1)
	if len(q.waiting) == 0 {
		q.waiting = nil
		at := slices.Index(l.active, q)
		l.active = slices.Delete(l.active, at, at+1)
	}
	w.queue = nil
	l.waiting--
}

// remove takes a request that waits no longer out of its queue.
func (l *level) remove(w *request, now time.Time) {
	l.unqueue(w, slices.Index(w.queue.waiting, w))
	l.demand.set(l.serving+l.waiting, now)
}

// leave takes the seat of a request that has been served, and charges its queue what it took.
func (l *level) leave(w *request, now time.Time) {
	l.serving--
	if l.flows[w.flow]--; l.flows[w.flow] == 0 {
		delete(l.flows, w.flow)
	}
	if w.from != nil {
		w.from.next = max(w.from.next+now.Sub(w.began).Seconds()-guess, l.virtual)
	}
	l.demand.set(l.serving+l.waiting, now)
	l.dispatch(now)
}
