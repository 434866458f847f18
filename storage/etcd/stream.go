package etcd

import (
	"context"
	"fmt"
	"sync"

	"github.com/keelson-dev/keelson/storage"
)

// limits bounds what a stream buffers.
type limits struct {
	events int
	bytes  int64
}

// stream is the storage.Stream between the goroutine that watches etcd and the reader.
type stream struct {
	limits limits
	cancel context.CancelFunc // ends the goroutine
	done   chan struct{}      // closed when it has ended
	leave  func()             // removes the stream from the store

	ready  chan struct{} // holds a token when there is something for the reader
	behind chan struct{} // holds a token when the stream has not reached the wanted revision

	mu       sync.Mutex
	events   []storage.Event
	bytes    int64
	at       int64 // everything up to it is in events or was read
	told     int64 // the last revision that the reader has seen
	progress bool  // whether at needs an event of its own
	wanted   int64 // the newest revision returned by the store's Revision
	err      error // why the stream has ended
}

func newStream(l limits, after int64) *stream {
	return &stream{limits: l, done: make(chan struct{}), ready: make(chan struct{}, 1), behind: make(chan struct{}, 1),
		at: after, told: after, wanted: after}
}

// Next implements storage.Stream.
func (s *stream) Next(ctx context.Context) ([]storage.Event, error) {
	for {
		if events, err := s.take(); events != nil || err != nil {
			return events, err
		}
		select {
		case <-s.ready:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// take returns what is buffered, possibly nothing.
func (s *stream) take() ([]storage.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	events := s.events
	if s.progress && s.at > s.told {
		events = append(events, storage.Event{Type: storage.Progress, Revision: s.at})
	}
	s.events, s.bytes, s.progress = nil, 0, false
	if len(events) > 0 {
		s.told = s.at
		return events, nil
	}
	return nil, s.err
}

// put adds the changes of whole revisions, and reports whether the stream can go on.
func (s *stream) put(events []storage.Event) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return false
	}
	s.progress = false // the events carry it
	for _, e := range events {
		s.bytes += int64(len(e.Key) + len(e.Value) + len(e.Prev))
	}
	if unread := len(s.events); unread > 0 && (unread+len(events) > s.limits.events || s.bytes > s.limits.bytes) {
		s.finish(fmt.Errorf("watch: the reader is %d changes behind: %w", unread, storage.ErrCompacted))
		return false
	}
	s.events = append(s.events, events...)
	s.at = events[len(events)-1].Revision
	s.signal(s.ready)
	return true
}

// pass records that nothing more follows up to revision.
func (s *stream) pass(revision int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || revision <= s.at {
		return
	}
	s.at, s.progress = revision, true
	s.signal(s.ready)
}

// want asks the goroutine to bring the stream to revision.
func (s *stream) want(revision int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = max(s.wanted, revision)
	if s.at < s.wanted {
		s.signal(s.behind)
	}
}

// standing returns the revision up to which the stream is complete, and the one it must reach.
func (s *stream) standing() (at, wanted int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at, s.wanted
}

// next is the first revision that is not in the stream yet.
func (s *stream) next() int64 {
	at, _ := s.standing()
	return at + 1
}

// fail ends the stream unless it has ended.
func (s *stream) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.finish(err)
	}
}

// finish drops unread events: a reader that starts again needs none of them.
func (s *stream) finish(err error) {
	s.err, s.events, s.progress = err, nil, false
	s.signal(s.ready)
}

func (s *stream) signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Close implements storage.Stream. It waits for the goroutine.
func (s *stream) Close() {
	s.fail(storage.ErrClosed)
	s.cancel()
	<-s.done
	s.leave()
}
