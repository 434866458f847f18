package linear

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"
)

// client performs one operation after the other, each at any of the servers.
type client struct {
	load   *Load
	number int
	random *rand.Rand
	serial int
}

func (c *client) run(ctx context.Context, servers []http.RoundTripper, operations int, lost bool) {
	l := c.load
	for n := 0; ctx.Err() == nil && (operations == 0 || n < operations); n++ {
		if l.options.Pause != nil {
			select {
			case <-time.After(l.options.Pause(c.random)):
			case <-ctx.Done():
				return
			}
		}
		op := c.next()
		op.Server = c.random.IntN(len(servers))
		if l.options.Steady {
			op.Server = c.number % len(servers)
		}
		l.record.call(op)
		// The end of the run does not cancel pending operations.
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.options.Timeout)
		a := l.api.do(within, servers[op.Server], op)
		cancel()
		l.record.answer(op, a)
		if a.outcome == Unknown && lost {
			return
		}
		l.learn(a.object, a.revision)
		for _, o := range a.items {
			l.learn(o, 0)
		}
		if a.outcome == Unknown {
			rest(ctx, c.random)
		}
	}
}

// next chooses an operation.
func (c *client) next() *Op {
	key := fmt.Sprintf("k%d", c.random.IntN(c.load.options.Keys))
	known, at := c.load.recall(key, c.random)
	c.serial++
	value := fmt.Sprintf("%d.%d", c.number, c.serial)
	op := &Op{Client: c.number, Key: key}
	switch n := c.random.IntN(100); {
	case n < 18:
		op.Verb = Get
	case n < 28:
		op.Verb, op.Key = List, ""
	case n < 38:
		op.Verb, op.Key = List, ""
		op.Mode = []Mode{Paged, Any, NotOlder, Exact}[c.random.IntN(4)]
		if op.Mode == NotOlder || op.Mode == Exact {
			op.Ask = at
		}
	case n < 50:
		op.Verb = Create
		op.Change = Change{A: value, B: value, Label: c.label()}
	case n < 70 && known.Revision > 0:
		op.Verb = Update
		op.Change = Change{A: value, B: value, Label: c.label()}
		op.If.Revision = known.Revision
	case n < 88:
		op.Verb = Patch
		if c.random.IntN(2) == 0 {
			op.Change = Change{A: value, Label: []string{"", "-", "x", "y"}[c.random.IntN(4)]}
		} else {
			op.Change.B = value
		}
	default:
		op.Verb = Delete
		if n := c.random.IntN(4); n == 0 {
			op.If.Revision = known.Revision
		} else if n == 1 {
			op.If.UID = known.UID
		}
	}
	return op
}

func (c *client) label() string { return []string{"", "x", "y"}[c.random.IntN(3)] }
