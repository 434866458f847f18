package etcd

import (
	"context"
	"fmt"
	"time"
)

// asker asks etcd how far a watch is, if the stream does not come to the wanted revision by itself: changes of its
// own keys do that, mostly. etcd does not answer while the watch is behind, so it asks again, less and less often.
type asker struct {
	stream  *stream
	request func(context.Context) error
	timer   *time.Timer
	due     time.Time     // when the timer fires
	wait    time.Duration // until then, from when it was set; 0 when nothing is wanted
	target  int64         // what was wanted when it asked last
}

const (
	askFirst = 5 * time.Millisecond
	askMost  = 500 * time.Millisecond
)

func newAsker(s *stream, request func(context.Context) error) *asker {
	a := &asker{stream: s, request: request, timer: time.NewTimer(askFirst)}
	a.set(askFirst) // for what was wanted before the watch began
	return a
}

func (a *asker) stop() { a.timer.Stop() }

func (a *asker) set(wait time.Duration) {
	a.wait, a.due = wait, time.Now().Add(wait)
	a.timer.Reset(wait)
}

// soon has the timer look after a short time, also if it was slowed down by what has been answered since. It never
// puts off a look: who asks all the time would wait for ever.
func (a *asker) soon() {
	at, _ := a.stream.standing()
	if a.wait == 0 || at >= a.target && time.Until(a.due) > askFirst {
		a.set(askFirst)
	}
}

// now asks if there still is something to ask for.
func (a *asker) now(ctx context.Context) error {
	at, wanted := a.stream.standing()
	if at >= wanted {
		a.wait = 0
		return nil
	}
	if err := a.request(ctx); err != nil {
		return fmt.Errorf("ask for progress: %w", err)
	}
	a.target = wanted
	a.set(min(2*a.wait, askMost))
	return nil
}
