package registry

import (
	"context"
	"errors"
	"sync"
)

// errStopped: Run has ended, so consistent reads and writes are no longer possible.
var errStopped = errors.New("registry is not running")

// clock is the newest revision that every table has applied, with its waiters.
type clock struct {
	mu      sync.Mutex
	now     int64
	err     error
	waiters []waiter
}

type waiter struct {
	revision int64
	reached  chan struct{}
}

func (c *clock) read() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(revision int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = max(c.now, revision)
	rest := c.waiters[:0]
	for _, w := range c.waiters {
		if w.revision <= c.now {
			close(w.reached)
		} else {
			rest = append(rest, w)
		}
	}
	clear(c.waiters[len(rest):])
	c.waiters = rest
}

// stop fails all waits, now and in the future.
func (c *clock) stop(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
	for _, w := range c.waiters {
		close(w.reached)
	}
	c.waiters = nil
}

// wait blocks until the clock has reached revision.
func (c *clock) wait(ctx context.Context, revision int64) error {
	c.mu.Lock()
	if c.now >= revision || c.err != nil {
		err := c.err
		if c.now >= revision {
			err = nil
		}
		c.mu.Unlock()
		return err
	}
	w := waiter{revision, make(chan struct{})}
	c.waiters = append(c.waiters, w)
	c.mu.Unlock()
	select {
	case <-w.reached:
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.now < revision {
			return c.err
		}
		return nil
	case <-ctx.Done():
		c.mu.Lock()
		defer c.mu.Unlock()
		for i := range c.waiters {
			if c.waiters[i].reached == w.reached {
				c.waiters = append(c.waiters[:i], c.waiters[i+1:]...)
				break
			}
		}
		return ctx.Err()
	}
}
