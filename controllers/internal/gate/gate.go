// Package gate keeps a controller's workers out while what the controller follows changes. It waits on channels, not on
// a mutex, so that virtual time passes meanwhile, and for as long as the context lasts, whose error it returns.
package gate

import (
	"context"
	"sync"
)

// Gate is open or closed. The zero value is an open one. It is safe for concurrent use.
type Gate struct {
	mu     sync.Mutex
	inside int
	// opens is closed when the gate opens; nil while it is open.
	opens chan struct{}
	// empty is closed when the last one has left; nil unless Close awaits that, until Open.
	empty chan struct{}
}

// Enter waits until the gate is open, and keeps it from being closed until Leave.
func (g *Gate) Enter(ctx context.Context) error {
	return g.pass(ctx, func() { g.inside++ })
}

// Leave ends what a successful Enter began.
func (g *Gate) Leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside--; g.inside == 0 && g.empty != nil {
		close(g.empty)
	}
}

// Close closes the gate and waits until everybody has left. If it fails, the gate is open.
func (g *Gate) Close(ctx context.Context) error {
	var empty chan struct{}
	err := g.pass(ctx, func() {
		g.opens = make(chan struct{})
		if g.inside > 0 {
			g.empty = make(chan struct{})
			empty = g.empty
		}
	})
	if empty == nil {
		return err
	}
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		g.Open()
		return ctx.Err()
	}
}

// Open opens a gate that Close has closed.
func (g *Gate) Open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.opens)
	g.opens, g.empty = nil, nil
}

// pass calls f once the gate is open.
func (g *Gate) pass(ctx context.Context, f func()) error {
	for {
		g.mu.Lock()
		opens := g.opens
		if opens == nil {
			f()
		}
		g.mu.Unlock()
		if opens == nil {
			return nil
		}
		select {
		case <-opens:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
