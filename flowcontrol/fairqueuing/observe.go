package fairqueuing

import (
	"slices"
	"strings"
	"time"

	"github.com/keelson-dev/keelson/flowcontrol"
)

// Observer is told of the requests of a Limiter. It must not block.
type Observer interface {
	Observe(o Observation)
}

// Event is what happened to a request.
type Event int

// The events. Every request is either Rejected, or Served and then Ended.
const (
	Served Event = iota
	Rejected
	Ended
)

// Observation is one event of a request.
type Observation struct {
	Class  flowcontrol.Class
	Verb   string // of the request
	Event  Event
	Reason flowcontrol.Reason // if Rejected
	Queued bool               // it had to wait, or waited in vain
	Waited time.Duration      // if Served or Rejected
	Took   time.Duration      // if Ended: from when it was served
}

func (l *Limiter) observe(o Observation) {
	if l.o.Observer != nil {
		l.o.Observer.Observe(o)
	}
}

// Level is what a priority level is doing.
type Level struct {
	Name string
	// Limits are in seats, as is Limit, which is how many there are now.
	flowcontrol.Limits
	Limit int
	// Serving and Waiting are requests.
	Serving, Waiting int
	// Most, Average, Deviation and Smoothed are what the level could have used in the last period, in seats.
	Most                         int
	Average, Deviation, Smoothed float64
	// Flows have requests that are served or wait.
	Flows []Flow
}

// Flow is what the requests of one schema are doing.
type Flow struct {
	Schema string // its name
	// Serving and Waiting are requests.
	Serving, Waiting int
}

// Levels describes all levels, by name.
func (l *Limiter) Levels() []Level {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []Level
	for name, one := range l.levels {
		d := &one.demand
		all = append(all, Level{
			Name: name, Limits: one.limits, Limit: one.limit, Serving: one.serving, Waiting: one.waiting,
			Most: d.high, Average: d.average, Deviation: d.deviation, Smoothed: d.smoothed, Flows: one.bySchema(),
		})
	}
	slices.SortFunc(all, func(a, b Level) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func (l *level) bySchema() []Flow {
	schemas := map[string]*Flow{}
	of := func(key flowKey) *Flow {
		if schemas[key.schema] == nil {
			schemas[key.schema] = &Flow{Schema: key.schema}
		}
		return schemas[key.schema]
	}
	for key, n := range l.flows {
		of(key).Serving += n
	}
	for _, q := range l.active {
		for _, w := range q.waiting {
			of(w.flow).Waiting++
		}
	}
	var all []Flow
	for _, f := range schemas {
		all = append(all, *f)
	}
	slices.SortFunc(all, func(a, b Flow) int { return strings.Compare(a.Schema, b.Schema) })
	return all
}
