package component

import (
	"log/slog"
	"time"

	"github.com/keelson-dev/keelson/controllers"
)

// slots is how many loops can act at instants of their own within one batch.
const slots = 64

// Pace is when and how much at once the components of a process act. The zero value is upstream's way; it is not to be
// copied once it is used.
type Pace struct {
	// Seed, if not nil, asks for the same choices in each run, and for one thing at a time where the order matters.
	Seed *uint64
	// Settle is how long components wait after something happened, so that they see together what happens at the same
	// moment. Each loop then acts at instants of its own.
	Settle time.Duration

	loops int
}

// InOrder tells that things are to be done one after the other, so that runs repeat.
func (p *Pace) InOrder() bool { return p.Seed != nil }

// options are those of the next loop.
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
