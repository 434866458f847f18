package nodetest

import (
	"context"
	"errors"
	"sync"

	"github.com/keelson-dev/keelson/informer"
)

// errAway is what reading from a server that is away fails with.
var errAway = errors.New("connection refused")

// outage is a period in which the API server does not answer the node.
type outage struct {
	mu    sync.Mutex
	away  bool
	began chan struct{} // closed when the next one begins
}

func newOutage() *outage { return &outage{began: make(chan struct{})} }

func (o *outage) set(away bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if away && !o.away {
		close(o.began)
	}
	if !away && o.away {
		o.began = make(chan struct{})
	}
	o.away = away
}

// state reports whether the server is away and, if not, returns the channel that is closed when it goes.
func (o *outage) state() (away bool, began <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.away, o.began
}

// source is the node's source of one kind, while the server answers.
type source[T informer.Object] struct {
	informer.Source[T]
	outage *outage
}

func (s source[T]) List(ctx context.Context) ([]T, string, error) {
	if away, _ := s.outage.state(); away {
		return nil, "", errAway
	}
	return s.Source.List(ctx)
}

func (s source[T]) Watch(ctx context.Context, version string) (informer.Stream[T], error) {
	away, began := s.outage.state()
	if away {
		return nil, errAway
	}
	in, err := s.Source.Watch(ctx, version)
	if err != nil {
		return nil, err
	}
	return stream[T]{in, began}, nil
}

// stream breaks when the server goes away.
type stream[T informer.Object] struct {
	informer.Stream[T]
	began <-chan struct{}
}

func (s stream[T]) Next(ctx context.Context) ([]informer.Event[T], error) {
	limited, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	group.Go(func() {
		select {
		case <-s.began:
			cancel()
		case <-limited.Done():
		}
	})
	list, err := s.Stream.Next(limited)
	select {
	case <-s.began: // later events do not arrive
		return nil, errAway
	default:
		return list, err
	}
}
