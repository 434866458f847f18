package fairqueuing

import (
	"cmp"
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/flowcontrol"
)

// Options of a Limiter. The zero value is that of upstream's API server.
type Options struct {
	// Seats is how many requests are served at once by all levels together, but those that are exempt; 0 is 600.
	Seats int
	// MaxWait bounds how long a request waits if its context has no deadline; 0 is 15 s. With one, it waits for a quarter of
	// the time that is left, and at most a minute.
	MaxWait time.Duration
	// Period is how often levels lend each other seats anew; 0 is 10 s.
	Period time.Duration
	// Observer is told of each request, if it is not nil.
	Observer Observer
}

const longestWait = time.Minute

// Limiter shares seats. Make one with New.
type Limiter struct {
	o      Options
	seed   maphash.Seed
	config atomic.Pointer[flowcontrol.Config]

	mu       sync.Mutex
	levels   map[string]*level // by name; also those that are gone while they have requests
	adjusted time.Time         // when levels last lent each other seats
}

// New returns a Limiter with no requests.
func New(c *flowcontrol.Config, o Options) *Limiter {
	o.Seats = cmp.Or(max(o.Seats, 0), 600)
	o.MaxWait = min(cmp.Or(max(o.MaxWait, 0), 15*time.Second), longestWait)
	o.Period = cmp.Or(max(o.Period, 0), 10*time.Second)
	l := &Limiter{o: o, seed: maphash.MakeSeed(), levels: map[string]*level{}, adjusted: time.Now()}
	l.Set(c)
	return l
}

// Set replaces the schemas and levels. Requests that wait or are served go on: those of a level that is gone as it was.
func (l *Limiter) Set(c *flowcontrol.Config) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	limits := flowcontrol.Allot(c.Levels(), l.o.Seats)
	present := map[string]bool{}
	for i, spec := range c.Levels() {
		present[spec.Name] = true
		one := l.levels[spec.Name]
		if one == nil {
			one = newLevel(now)
			l.levels[spec.Name] = one
		}
		one.gone = false
		one.set(spec, limits[i])
	}
	for name, one := range l.levels {
		if one.gone = !present[name]; one.gone {
			l.reap(name, one)
		}
	}
	l.config.Store(c)
	l.lend(now)
	for _, one := range l.levels {
		one.dispatch(now)
	}
}

// reap forgets a level that is gone when it has no requests.
func (l *Limiter) reap(name string, one *level) {
	if one.gone && one.serving == 0 && one.waiting == 0 {
		delete(l.levels, name)
	}
}

// Wait implements flowcontrol.Limiter.
func (l *Limiter) Wait(ctx context.Context, a authz.Attributes) (flowcontrol.Ticket, error) {
	class := l.config.Load().Classify(a)
	t := flowcontrol.Ticket{Class: class}
	began := time.Now()
	w, one, reason := l.enter(class, began)
	if reason != "" {
		return t, l.rejection(one, Observation{Class: class, Verb: a.Verb, Reason: reason}, began)
	}
	served := began
	if w.granted != nil {
		if reason = l.await(ctx, one, w, began); reason != "" {
			return t, l.rejection(one, Observation{Class: class, Verb: a.Verb, Reason: reason}, began)
		}
		served = time.Now()
	}
	l.observe(Observation{Class: class, Verb: a.Verb, Event: Served, Queued: w.granted != nil, Waited: served.Sub(began)})
	t.Release = func() {
		now := time.Now()
		l.mu.Lock()
		l.adjust(now)
		one.leave(w, now)
		l.reap(class.Level.Name, one)
		l.mu.Unlock()
		l.observe(Observation{Class: class, Verb: a.Verb, Event: Ended, Took: now.Sub(served)})
	}
	return t, nil
}

// enter gives a request a seat, or a place in a queue: then it has to wait until it is granted.
func (l *Limiter) enter(class flowcontrol.Class, now time.Time) (*request, *level, flowcontrol.Reason) {
	key := flowKey{class.Schema.Name, class.Flow}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.adjust(now)
	one := l.levels[class.Level.Name]
	if one == nil { // Set has come between
		one = newLevel(now)
		one.gone = true // it serves one request at a time
		one.set(class.Level, flowcontrol.Limits{})
		l.levels[class.Level.Name] = one
	}
	w := &request{flow: key, began: now}
	reason := one.enter(w, l.hash(key), now)
	l.reap(class.Level.Name, one)
	return w, one, reason
}

func (l *Limiter) hash(key flowKey) uint64 {
	var h maphash.Hash
	h.SetSeed(l.seed)
	_, _ = h.WriteString(key.schema)
	_ = h.WriteByte(0)
	_, _ = h.WriteString(key.name)
	return h.Sum64()
}

// await waits until a request is granted a seat. It returns why if it gives up.
func (l *Limiter) await(ctx context.Context, one *level, w *request, began time.Time) flowcontrol.Reason {
	limit := l.o.MaxWait
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(deadline.Sub(began)/4, longestWait)
	}
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	period := time.NewTicker(l.o.Period)
	defer period.Stop()
	for {
		reason := flowcontrol.TimeOut
		select {
		case <-w.granted:
			return ""
		case <-period.C:
			l.mu.Lock()
			l.adjust(time.Now())
			l.mu.Unlock()
			continue
		case <-timeout.C:
		case <-ctx.Done():
			reason = flowcontrol.Cancelled
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if w.queue == nil { // granted meanwhile
			return ""
		}
		one.remove(w, time.Now())
		l.reap(one.spec.Name, one)
		return reason
	}
}

// rejection notes that a request is not served.
func (l *Limiter) rejection(one *level, o Observation, began time.Time) error {
	now := time.Now()
	o.Event, o.Waited, o.Queued = Rejected, now.Sub(began), o.Reason == flowcontrol.TimeOut || o.Reason == flowcontrol.Cancelled
	l.mu.Lock()
	after := one.patience.rejected(now)
	l.mu.Unlock()
	l.observe(o)
	return &flowcontrol.Rejection{Class: o.Class, Reason: o.Reason, RetryAfter: after}
}

// adjust has the levels lend each other seats if a period is over.
func (l *Limiter) adjust(now time.Time) {
	if now.Sub(l.adjusted) < l.o.Period {
		return
	}
	l.lend(now)
	for _, one := range l.levels {
		one.dispatch(now)
	}
}

// lend sets the limits of all levels by what they could have used since this was last done.
func (l *Limiter) lend(now time.Time) {
	periods := max(1, int(now.Sub(l.adjusted)/l.o.Period))
	if now.Sub(l.adjusted) >= l.o.Period {
		l.adjusted = now
	}
	var all []*level
	var demands []flowcontrol.Demand
	for _, one := range l.levels {
		if one.gone {
			continue
		}
		one.demand.close(now, min(periods, 1000))
		all = append(all, one)
		demands = append(demands, flowcontrol.Demand{
			Limits: one.limits, Exempt: one.exempt, Most: one.demand.high, Smoothed: one.demand.smoothed,
		})
	}
	for i, limit := range flowcontrol.Lend(demands) {
		all[i].limit = limit
	}
}
