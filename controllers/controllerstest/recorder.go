package controllerstest

import (
	"slices"
	"sync"

	"github.com/keelson-dev/keelson/events"
)

// Recorder collects events. The zero value is ready to use.
type Recorder struct {
	mu  sync.Mutex
	all []events.Event
}

var _ events.Recorder = (*Recorder)(nil)

// Record implements events.Recorder.
func (r *Recorder) Record(e events.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, e)
}

// Events returns the events so far, in order.
func (r *Recorder) Events() []events.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}

// Take returns the events since the last Take as "Type Reason Message".
func (r *Recorder) Take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, e := range r.all {
		out = append(out, e.Type+" "+e.Reason+" "+e.Message)
	}
	r.all = nil
	return out
}
