package customresources

import (
	"context"
	"sync"
)

// gate lets creates through until it is shut. Its zero value is open.
type gate struct {
	mu      sync.Mutex
	closed  bool
	inside  int
	drained chan struct{} // closed when the last one leaves a closed gate; nil while nobody waits
}

// enter reports whether a create may go on. If so, leave must be called when its outcome is known.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.inside++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	if g.inside == 0 && g.drained != nil {
		close(g.drained)
		g.drained = nil
	}
}

// shut closes the gate for good and returns once all that have entered have left.
func (g *gate) shut(ctx context.Context) error {
	g.mu.Lock()
	g.closed = true
	if g.inside > 0 && g.drained == nil {
		g.drained = make(chan struct{})
	}
	drained := g.drained
	g.mu.Unlock()
	if drained == nil {
		return nil
	}
	select {
	case <-drained:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// isShut reports whether shut has been called.
func (g *gate) isShut() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed
}
