package prober

import (
	"context"
	"net"
	"sync"
)

// dials are the connections that are being made for one request. The HTTP client goes on with them
// when their request has failed already, in case others can use them; nobody can here.
type dials struct {
	ctx   context.Context //nolint:containedctx // it lives for one call
	group sync.WaitGroup

	mu   sync.Mutex
	over bool
}

type dialsKey struct{}

// joined returns a context whose request's dials are ended, and waited for, by stop.
func joined(parent context.Context) (ctx context.Context, stop func()) {
	own, cancel := context.WithCancel(parent)
	d := &dials{ctx: own}
	return context.WithValue(parent, dialsKey{}, d), func() {
		d.mu.Lock()
		d.over = true
		d.mu.Unlock()
		cancel()
		d.group.Wait()
	}
}

// begin reports whether a connection may still be made.
func (d *dials) begin() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.over {
		d.group.Add(1)
	}
	return !d.over
}

// dial connects for the request that the context belongs to.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	d, ok := ctx.Value(dialsKey{}).(*dials)
	if !ok {
		return newDialer().DialContext(ctx, network, address)
	}
	if !d.begin() {
		return nil, context.Canceled
	}
	defer d.group.Done()
	return newDialer().DialContext(d.ctx, network, address)
}
