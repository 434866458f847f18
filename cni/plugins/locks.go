package plugins

import (
	"context"
	"sync"

	"github.com/keelson-dev/keelson/cni"
)

// locks serializes the calls for each attachment. The zero value is ready to use.
type locks struct {
	mu   sync.Mutex
	held map[cni.Key]*lock
}

type lock struct {
	token chan struct{}
	users int
}

// acquire waits for its turn and returns the function to release it, or the context's error.
func (l *locks) acquire(ctx context.Context, key cni.Key) (release func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	if l.held == nil {
		l.held = map[cni.Key]*lock{}
	}
	of := l.held[key]
	if of == nil {
		of = &lock{token: make(chan struct{}, 1)}
		l.held[key] = of
	}
	of.users++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if of.users--; of.users == 0 {
			delete(l.held, key)
		}
	}
	select {
	case of.token <- struct{}{}:
		return func() { <-of.token; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
