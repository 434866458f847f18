// Package turns has those wait for each other who work on the same thing, and nobody else.
package turns

import (
	"context"
	"sync"
)

// Turns are the turns of things that are worked on. The zero value is ready for use, by any goroutine.
type Turns[K comparable] struct {
	mu  sync.Mutex
	all map[K]*turn
}

// turn is held while a thing is worked on.
type turn struct {
	held  chan struct{}
	users int
}

// Lock waits for the turn of a thing. It fails with the context's error if that ends before.
func (t *Turns[K]) Lock(ctx context.Context, of K) (unlock func(), err error) {
	t.mu.Lock()
	if t.all == nil {
		t.all = map[K]*turn{}
	}
	mine := t.all[of]
	if mine == nil {
		mine = &turn{held: make(chan struct{}, 1)}
		t.all[of] = mine
	}
	mine.users++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if mine.users--; mine.users == 0 {
			delete(t.all, of)
		}
	}
	select {
	case mine.held <- struct{}{}:
		return func() { <-mine.held; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
