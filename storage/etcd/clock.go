package etcd

import (
	"context"
	"sync"
)

// clock reads the revision for many callers with few requests. One request runs at a time; calls made while it runs
// share the next one, which begins after all of them.
type clock struct {
	request func(context.Context) (int64, error)

	mu      sync.Mutex
	running bool
	next    *reading
	current *reading
	closed  bool
	wg      sync.WaitGroup
}

// reading is one request and its waiters.
type reading struct {
	waiting  int
	ctx      context.Context // ends when the last waiter gives up
	cancel   context.CancelFunc
	done     chan struct{}
	revision int64
	err      error
}

func newClock(request func(context.Context) (int64, error)) *clock { return &clock{request: request} }

func (c *clock) read(ctx context.Context) (int64, error) {
	r := c.join()
	select {
	case <-r.done:
		return r.revision, r.err
	case <-ctx.Done():
		c.leave(r)
		return 0, ctx.Err()
	}
}

func (c *clock) join() *reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == nil {
		ctx, cancel := context.WithCancel(context.Background())
		c.next = &reading{ctx: ctx, cancel: cancel, done: make(chan struct{})}
		if c.closed {
			cancel()
		}
	}
	r := c.next
	r.waiting++
	if !c.running {
		c.running = true
		c.wg.Go(c.run)
	}
	return r
}

func (c *clock) leave(r *reading) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.waiting--; r.waiting == 0 {
		r.cancel()
		if c.next == r {
			c.next = nil
		}
	}
}

// run makes requests as long as there are waiters.
func (c *clock) run() {
	for {
		c.mu.Lock()
		r := c.next
		c.next, c.current = nil, r
		if r == nil {
			c.running = false
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
		r.revision, r.err = c.request(r.ctx)
		r.cancel()
		close(r.done)
	}
}

// close ends the running request and fails later ones.
func (c *clock) close() {
	c.mu.Lock()
	c.closed = true
	for _, r := range []*reading{c.current, c.next} {
		if r != nil {
			r.cancel()
		}
	}
	c.mu.Unlock()
	c.wg.Wait()
}
