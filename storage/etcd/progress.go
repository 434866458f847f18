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
	wait    time.Duration // 0 when nothing is wanted
}

const (
	askFirst = 5 * time.Millisecond
	askMost  = 500 * time.Millisecond
)

func newAsker(s *stream, request func(context.Context) error) *asker {
	a := &asker{stream: s, request: request, timer: time.NewTimer(askFirst)}
	a.wait = askFirst // what was wanted before the watch began
	return a
}

func (a *asker) stop() { a.timer.Stop() }

// soon has the timer look after a short time, unless it is to do so anyway.
func (a *asker) soon() {
	if a.wait == 0 {
		a.wait = askFirst
		a.timer.Reset(a.wait)
	}
}

// now asks if there still is something to ask for.
func (a *asker) now(ctx context.Context) error {
	if !a.stream.isBehind() {
		a.wait = 0
		return nil
	}
	if err := a.request(ctx); err != nil {
		return fmt.Errorf("ask for progress: %w", err)
	}
	a.wait = min(2*a.wait, askMost)
	a.timer.Reset(a.wait)
	return nil
}
