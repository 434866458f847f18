package etcd

import (
	"context"
	"fmt"
	"time"
)

// asker asks etcd for progress of a watch if the stream does not reach the wanted revision by itself; changes of its
// own keys usually bring it there. etcd does not answer while the watch lags, so the asker repeats with growing
// intervals.
type asker struct {
	stream  *stream
	request func(context.Context) error
	timer   *time.Timer
	due     time.Time     // when the timer fires
	wait    time.Duration // how long it was set for; 0 when nothing is wanted
	target  int64         // the wanted revision at the last request
}

const (
	askFirst = 5 * time.Millisecond
	askMost  = 500 * time.Millisecond
)

func newAsker(s *stream, request func(context.Context) error) *asker {
	a := &asker{stream: s, request: request, timer: time.NewTimer(askFirst)}
	a.set(askFirst) // what was wanted before the watch began
	return a
}

func (a *asker) stop() { a.timer.Stop() }

func (a *asker) set(wait time.Duration) {
	a.wait, a.due = wait, time.Now().Add(wait)
	a.timer.Reset(wait)
}

// soon lets the timer fire shortly, even if it was slowed down by earlier answers. It never postpones it: a caller that
// asks all the time would wait forever.
func (a *asker) soon() {
	at, _ := a.stream.standing()
	if a.wait == 0 || at >= a.target && time.Until(a.due) > askFirst {
		a.set(askFirst)
	}
}

// now sends a request if the stream is still behind.
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
