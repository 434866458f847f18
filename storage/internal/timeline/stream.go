package timeline

import (
	"context"
	"strings"
	"sync"

	"github.com/keelson-dev/keelson/storage"
)

// readAhead is how many changes a stream takes from the history at a time.
const readAhead = 128

// stream is a position in the history; it buffers nothing.
type stream struct {
	timeline *Timeline
	prefix   string
	position int64 // the last revision read past
	told     int64 // the last revision that the reader knows to be complete
	close    sync.Once
	closed   chan struct{}
}

// Watch implements storage.Watcher.
func (t *Timeline) Watch(ctx context.Context, prefix string, after int64) (storage.Stream, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.readable(after); err != nil {
		return nil, err
	}
	return &stream{timeline: t, prefix: prefix, position: after, told: after, closed: make(chan struct{})}, nil
}

// Next implements storage.Stream.
func (s *stream) Next(ctx context.Context) ([]storage.Event, error) {
	var changes [readAhead]Change
	for {
		select {
		case <-s.closed:
			return nil, storage.ErrClosed
		default:
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n, wake, err := s.timeline.after(s.position, changes[:])
		if err != nil {
			return nil, err
		}
		if n > 0 {
			s.position = changes[n-1].Revision
		}
		if events := selectEvents(changes[:n], s.prefix); len(events) > 0 {
			s.told = events[len(events)-1].Revision
			return events, nil
		}
		if s.told < s.position { // even if more changes follow, so that changes of other keys do not delay the reader
			s.told = s.position
			return []storage.Event{{Type: storage.Progress, Revision: s.told}}, nil
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-s.closed:
			return nil, storage.ErrClosed
		}
	}
}

// Close implements storage.Stream.
func (s *stream) Close() { s.close.Do(func() { close(s.closed) }) }

// after fills changes with those after a revision. If there are none yet, it returns a channel that is closed when
// there are.
func (t *Timeline) after(revision int64, changes []Change) (int, <-chan struct{}, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.readable(revision); err != nil {
		return 0, nil, err
	}
	if n := t.history.copyTo(changes, revision); n > 0 {
		return n, nil, nil
	}
	if t.wake == nil {
		t.wake = make(chan struct{})
	}
	return 0, t.wake, nil
}

func selectEvents(changes []Change, prefix string) []storage.Event {
	var events []storage.Event
	for i, change := range changes {
		key := change.Key()
		if !strings.HasPrefix(key, prefix) {
			continue
		}
		if events == nil {
			events = make([]storage.Event, 0, len(changes)-i)
		}
		event := storage.Event{Type: storage.Delete, Key: key, Revision: change.Revision}
		if change.After != nil {
			event.Type, event.Value = storage.Put, change.After.Value
		}
		if change.Before != nil {
			event.Prev = change.Before.Value
		}
		events = append(events, event)
	}
	return events
}
