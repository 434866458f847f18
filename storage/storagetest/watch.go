package storagetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/storage"
)

func testWatchEvents(t *testing.T, s *suite) {
	stream := s.watch("", s.revision())
	created := s.create("a", "1")
	updated := s.update("a", "2", created)
	deleted := s.delete("a", updated)
	again := s.create("a", "")
	same := s.update("a", "", again)
	want := []storage.Event{
		{Type: storage.Put, Key: "a", Value: []byte("1"), Revision: created},
		{Type: storage.Put, Key: "a", Value: []byte("2"), Prev: []byte("1"), Revision: updated},
		{Type: storage.Delete, Key: "a", Prev: []byte("2"), Revision: deleted},
		{Type: storage.Put, Key: "a", Value: []byte{}, Revision: again},
		{Type: storage.Put, Key: "a", Value: []byte{}, Prev: []byte{}, Revision: same},
	}
	s.wantEvents(s.next(stream, len(want)), want...)
	s.quiet(stream)
	s.wantEvents(s.next(s.watch("", created-1), len(want)), want...)
}

func testWatchPrefix(t *testing.T, s *suite) {
	start := s.revision()
	streams := map[string]storage.Stream{}
	prefixes := []string{"", "/a", "/a/", "/a/1", "/b", "/c", "/a\xff"}
	for _, prefix := range prefixes {
		streams[prefix] = s.watch(prefix, start)
	}
	keys := []string{"/a", "/a/1", "/a/10", "/a0", "/a\xff", "/b", "/", "/a/2", "x/a/1", "\xff/a/"}
	revisions := make([]int64, len(keys))
	for i, key := range keys {
		revisions[i] = s.create(key, key)
	}
	for _, prefix := range prefixes {
		var want []storage.Event
		for i, key := range keys {
			if strings.HasPrefix(key, prefix) {
				want = append(want, storage.Event{Type: storage.Put, Key: key, Value: []byte(key), Revision: revisions[i]})
			}
		}
		s.wantEvents(s.next(streams[prefix], len(want)), want...)
		s.quiet(streams[prefix])
	}
}

func testWatchFromAnyRevision(t *testing.T, s *suite) {
	start := s.revision()
	var want []storage.Event
	var prev []byte
	at := s.create("a", "0")
	want = append(want, storage.Event{Type: storage.Put, Key: "a", Value: []byte("0"), Revision: at})
	for i := range 50 {
		prev = want[i].Value
		value := fmt.Sprint(i + 1)
		at = s.update("a", value, at)
		want = append(want, storage.Event{Type: storage.Put, Key: "a", Value: []byte(value), Prev: prev, Revision: at})
	}
	for i := range len(want) + 1 {
		after := start
		if i > 0 {
			after = want[i-1].Revision
		}
		stream := s.watch("a", after)
		s.wantEvents(s.next(stream, len(want)-i), want[i:]...)
		stream.Close()
	}
}

func testWatchRefused(t *testing.T, s *suite) {
	old := s.create("a", "1")
	next := s.update("a", "2", old)
	_, err := s.store.Watch(t.Context(), "", s.revision()+1)
	s.wantError("Watch after a revision not yet written", err, storage.ErrFutureRevision)
	_, err = s.store.Watch(t.Context(), "", -1)
	s.wantError("Watch after a negative revision", err, storage.ErrCompacted)

	s.backend.Forget(t, s.store)
	_, err = s.store.Watch(t.Context(), "a", old)
	s.wantError("Watch after a forgotten revision", err, storage.ErrCompacted)

	stream := s.watch("a", s.revision())
	s.quiet(stream)
	newest := s.update("a", "3", next)
	s.wantEvents(s.next(stream, 1), storage.Event{Type: storage.Put, Key: "a", Value: []byte("3"), Prev: []byte("2"), Revision: newest})
}

func testWatchBlocks(t *testing.T, s *suite) {
	stream := s.watch("a", s.revision())
	s.quiet(stream)
	// A Next that waits is woken by a write, and by its context, and the stream lives on.
	for i := range 10 {
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error, 1)
		go func() {
			_, err := stream.Next(ctx)
			result <- err
		}()
		time.Sleep(time.Millisecond)
		cancel()
		s.wantError("Next under a cancelled context", s.wait(result), context.Canceled)

		s.create(fmt.Sprint("b", i), "passes by")
		events := make(chan []storage.Event, 1)
		go func() { events <- s.nextOne(stream) }()
		time.Sleep(time.Millisecond)
		key := fmt.Sprint("a", i)
		revision := s.create(key, "x")
		s.wantEvents(<-events, storage.Event{Type: storage.Put, Key: key, Value: []byte("x"), Revision: revision})
	}
}

// nextOne reads one batch of changes for another goroutine than the test's.
func (s *suite) nextOne(stream storage.Stream) []storage.Event {
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	for {
		events, err := changes(ctx, stream)
		if err != nil {
			s.Errorf("Next: %v", err)
		}
		if err != nil || len(events) > 0 {
			return events
		}
	}
}

func (s *suite) wait(result <-chan error) error {
	s.Helper()
	select {
	case err := <-result:
		return err
	case <-time.After(patience):
		s.Fatal("Next goes on waiting")
		return nil
	}
}

// testProgress waits for revisions through streams that most writes do not concern.
func testProgress(t *testing.T, s *suite) {
	start := s.revision()
	mine, other := s.watch("mine/", start), s.watch("none/", start)
	var want []storage.Event
	for i := range 40 {
		s.create(fmt.Sprint("theirs/", i), "")
		if i%7 == 3 {
			key := fmt.Sprint("mine/", i)
			want = append(want, storage.Event{Type: storage.Put, Key: key, Value: []byte("x"), Revision: s.create(key, "x")})
		}
		if i%3 > 0 {
			continue
		}
		now := s.revision()
		s.wantEvents(s.until(mine, now), want...)
		s.wantEvents(s.until(other, now))
		want = nil
	}
	s.quiet(other)
	// A stream that begins in the past, and one that waits already.
	now := s.revision()
	s.wantEvents(s.until(s.watch("none/", start), now))
	arrived := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	go func() {
		for {
			events, err := other.Next(ctx)
			if err != nil || events[len(events)-1].Revision > now {
				arrived <- err
				return
			}
		}
	}()
	s.create("theirs/last", "")
	s.revision()
	s.wantError("Next that waits while others write", s.wait(arrived), nil)
}

// until reads a stream up to a revision, and returns the changes.
func (s *suite) until(stream storage.Stream, revision int64) []storage.Event {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	var events []storage.Event
	for stream.(*tracked).position < revision {
		batch, err := changes(ctx, stream)
		if err != nil {
			s.Fatalf("Next on the way from %d to %d, after %d changes: %v", stream.(*tracked).position, revision, len(events), err)
		}
		events = append(events, batch...)
	}
	return events
}

// testWatchSlow leaves a stream unread while history moves past it. It may still deliver what it
// has, without gap, but must then say that it was cut off, for good.
func testWatchSlow(t *testing.T, s *suite) {
	at := s.create("a", "0")
	stream := s.watch("", at)
	var written []int64
	for i := range 10 {
		at = s.update("a", fmt.Sprint(i), at)
		written = append(written, at)
	}
	s.backend.Forget(t, s.store)
	s.create("newest", "")

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var last int64
	for {
		events, err := stream.Next(ctx)
		if errors.Is(err, storage.ErrCompacted) {
			break
		}
		if err != nil {
			t.Fatalf("Next on a stream left behind: %v", err)
		}
		for _, e := range events {
			if e.Type == storage.Progress && len(written) > 0 && e.Revision >= written[0] {
				t.Fatalf("the stream left behind tells of progress to %d; writes to see: %v", e.Revision, written)
			}
			if e.Type == storage.Progress {
				continue
			}
			if e.Revision <= last || len(written) > 0 && e.Revision != written[0] {
				t.Fatalf("the stream left behind went from revision %d to %d; writes to see: %v", last, e.Revision, written)
			}
			last, written = e.Revision, written[min(1, len(written)):]
		}
	}
	_, err := stream.Next(ctx)
	s.wantError("second Next on a stream cut off", err, storage.ErrCompacted)
}

func testStreamClose(t *testing.T, s *suite) {
	start := s.revision()
	stream, idle := s.watch("", start), s.watch("", start)
	result := make(chan error, 1)
	go func() {
		_, err := stream.Next(t.Context())
		result <- err
	}()
	time.Sleep(time.Millisecond)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(stream.Close)
	}
	wg.Wait()
	s.wantError("Next on a stream being closed", s.wait(result), storage.ErrClosed)
	stream.Close()

	revision := s.create("a", "1")
	_, err := stream.Next(t.Context())
	s.wantError("Next on a closed stream", err, storage.ErrClosed)
	s.wantEvents(s.next(idle, 1), storage.Event{Type: storage.Put, Key: "a", Value: []byte("1"), Revision: revision})
}

func testStoreClose(t *testing.T, s *suite) {
	closer, ok := s.store.(interface{ Close() error })
	if !ok {
		return // the store's end is not its own to decide
	}
	at := s.create("a", "1")
	stream := s.watch("", at)
	result := make(chan error, 1)
	go func() {
		_, err := stream.Next(t.Context())
		result <- err
	}()
	time.Sleep(time.Millisecond)
	if err := closer.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	s.wantError("Next on a store being closed", s.wait(result), storage.ErrClosed)
	if err := closer.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"Get":      func() error { _, err := s.store.Get(ctx, "a"); return err },
		"List":     func() error { _, err := s.store.List(ctx, "", storage.ListOptions{}); return err },
		"Revision": func() error { _, err := s.store.Revision(ctx); return err },
		"Create":   func() error { _, err := s.store.Create(ctx, "b", nil); return err },
		"Update":   func() error { _, err := s.store.Update(ctx, "a", nil, at); return err },
		"Delete":   func() error { _, err := s.store.Delete(ctx, "a", at); return err },
		"Watch":    func() error { _, err := s.store.Watch(ctx, "", at); return err },
		"Next":     func() error { _, err := stream.Next(ctx); return err },
	} {
		s.wantError(name+" on a closed store", call(), storage.ErrClosed)
	}
}

// testWatchWhileWriting has writers race with watchers that start at different moments; each must
// see exactly the events that a watch of the whole history shows afterwards.
func testWatchWhileWriting(t *testing.T, s *suite) {
	const writers, writes, watchers = 4, 30, 6 // 121 changes: inside any history
	start := s.revision()
	prefixes := []string{"", "w1/", "w"} // all match the last key
	seen := make([][]storage.Event, watchers)
	from := make([]int64, watchers)

	var writing, watching sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			if err := churn(t.Context(), s.store, fmt.Sprintf("w%d/", w), writes); err != nil {
				t.Errorf("writer: %v", err)
			}
		})
	}
	for i := range watchers {
		from[i] = s.revision()
		watching.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			var err error
			if seen[i], err = follow(ctx, s.store, prefixes[i%len(prefixes)], from[i], "w1/last"); err != nil {
				t.Errorf("watcher: %v", err)
			}
		})
		time.Sleep(time.Millisecond / 2)
	}
	writing.Wait()
	s.create("w1/last", "")
	watching.Wait()

	all := s.next(s.watch("", start), writers*writes+1)
	for i, events := range seen {
		var want []storage.Event
		for _, e := range all {
			if e.Revision > from[i] && strings.HasPrefix(e.Key, prefixes[i%len(prefixes)]) {
				want = append(want, e)
			}
		}
		s.wantEvents(events, want...)
	}
}

// churn creates, updates and deletes keys under a prefix, n changes in all.
func churn(ctx context.Context, store storage.Writer, prefix string, n int) error {
	var at int64
	var err error
	for i := range n {
		key := fmt.Sprint(prefix, i/3)
		switch i % 3 {
		case 0:
			at, err = store.Create(ctx, key, []byte("new"))
		case 1:
			at, err = store.Update(ctx, key, []byte("changed"), at)
		case 2:
			_, err = store.Delete(ctx, key, at)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// follow collects what a watch delivers up to the event of the last key.
func follow(ctx context.Context, store storage.Watcher, prefix string, after int64, last string) ([]storage.Event, error) {
	stream, err := store.Watch(ctx, prefix, after)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	var seen []storage.Event
	for {
		events, err := changes(ctx, stream)
		if err != nil {
			return seen, err
		}
		seen = append(seen, events...)
		if len(events) > 0 && events[len(events)-1].Key == last {
			return seen, nil
		}
	}
}
