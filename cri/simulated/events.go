package simulated

import (
	"context"
	"sync"
	"time"

	"github.com/keelson-dev/keelson/cri"
)

// readers are those that read events.
type readers struct {
	all    map[*stream]struct{}
	buffer int // how many events each may lag behind
}

// stream is one reader of events.
type stream struct {
	runtime *Runtime
	wake    chan struct{} // holds one token while there may be something to read

	mu      sync.Mutex
	pending []cri.Event
	err     error
}

// Events opens a stream of events from now on.
func (r *Runtime) Events(ctx context.Context) (cri.EventStream, error) {
	if err := r.perform(ctx, Operation{Verb: List}); err != nil {
		return nil, err
	}
	s := &stream{runtime: r, wake: make(chan struct{}, 1)}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, cri.ErrUnavailable
	}
	r.readers.all[s] = struct{}{}
	return s, nil
}

// publish sends an event to every reader. The caller holds the runtime's lock, so all readers see the same order.
func (r *Runtime) publish(kind cri.EventType, id string, pod cri.SandboxMetadata) {
	event := cri.Event{Type: kind, ID: id, Pod: pod, At: time.Now()}
	for s := range r.readers.all {
		s.add(event, r.readers.buffer)
	}
}

func (s *stream) add(e cri.Event, limit int) {
	s.mu.Lock()
	if len(s.pending) < limit {
		s.pending = append(s.pending, e)
	} else if s.err == nil {
		s.err = cri.ErrEventsLost
	}
	s.mu.Unlock()
	s.notify()
}

func (s *stream) fail(err error) {
	s.mu.Lock()
	if s.err == nil {
		s.err = err
	}
	s.mu.Unlock()
	s.notify()
}

func (s *stream) notify() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Next returns the events since the last call.
func (s *stream) Next(ctx context.Context) ([]cri.Event, error) {
	for {
		s.mu.Lock()
		events, err := s.pending, s.err
		s.pending = nil
		s.mu.Unlock()
		switch {
		case err != nil:
			return nil, err
		case len(events) > 0:
			return events, nil
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Close releases the stream.
func (s *stream) Close() {
	s.runtime.mu.Lock()
	delete(s.runtime.readers.all, s)
	s.runtime.mu.Unlock()
}
