package component

import (
	"log/slog"
	"time"

	"github.com/keelson-dev/keelson/controllers"
)

// slots is how many loops can act at distinct instants within one batch.
const slots = 64

// Pace controls when the components of a process act, and how much at once. The zero value is upstream's behaviour. A
// Pace must not be copied after first use.
type Pace struct {
	// Seed, if not nil, requests the same choices in each run, and one thing at a time where the order matters.
	Seed *uint64
	// Settle is how long components wait after an event, so that they handle simultaneous events together. Each loop
	// then acts at distinct instants.
	Settle time.Duration

	loops int
}

// InOrder reports whether things must be done one after the other, so that runs are reproducible.
func (p *Pace) InOrder() bool { return p.Seed != nil }

// options returns the options of the next loop.
func (p *Pace) options(log *slog.Logger) controllers.Options {
	o := controllers.Options{Workers: 5, Logger: log}
	if p.InOrder() {
		o.Workers = 1
	}
	if p.Settle > 0 {
		p.loops++
		o.Batch, o.Offset = slots*p.Settle, time.Duration(p.loops)*p.Settle
	}
	return o
}
