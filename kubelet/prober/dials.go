package prober

import (
	"context"
	"net"
	"sync"
)

// dials are the pending connections of one request. The HTTP client continues them after the request has failed, for
// use by other requests; here there are none.
type dials struct {
	ctx   context.Context //nolint:containedctx // it lives for one call
	group sync.WaitGroup

	mu   sync.Mutex
	over bool
}

type dialsKey struct{}

// joined returns a context for a request; stop ends the request's dials and waits for them.
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

// begin reports whether another dial may start.
func (d *dials) begin() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.over {
		d.group.Add(1)
	}
	return !d.over
}

// dial connects for the request of the context.
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
