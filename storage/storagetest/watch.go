package storagetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/keelson-dev/keelson/storage"
)

func testWatchEvents(s *suite) {
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

func testWatchPrefix(s *suite) {
	start := s.revision()
	streams := map[string]*tracked{}
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

func testWatchFromAnyRevision(s *suite) {
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

func testWatchRefused(s *suite) {
	old := s.create("a", "1")
	next := s.update("a", "2", old)
	_, err := s.store.Watch(s.Context(), "", s.revision()+1)
	s.wantError("Watch after a revision not yet written", err, storage.ErrFutureRevision)
	_, err = s.store.Watch(s.Context(), "", -1)
	s.wantError("Watch after a negative revision", err, storage.ErrCompacted)

	s.backend.Forget(s.TB, s.store)
	_, err = s.store.Watch(s.Context(), "a", old)
	s.wantError("Watch after a forgotten revision", err, storage.ErrCompacted)

	stream := s.watch("a", s.revision())
	s.quiet(stream)
	_, err = s.store.Watch(s.Context(), "a", 1<<62)
	s.wantError("Watch after a revision far ahead", err, storage.ErrFutureRevision)
	newest := s.update("a", "3", next)
	s.wantEvents(s.next(stream, 1), storage.Event{Type: storage.Put, Key: "a", Value: []byte("3"), Prev: []byte("2"), Revision: newest})
}

func testWatchBlocks(s *suite) {
	stream := s.watch("a", s.revision())
	s.quiet(stream)
	// A blocked Next is woken by a write and by its context, after which the stream stays usable.
	for i := range 10 {
		ctx, cancel := context.WithCancel(s.Context())
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
	ctx, cancel := s.patient()
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
	case <-time.After(s.patience()):
		s.Fatal("Next goes on waiting")
		return nil
	}
}

// testWatchSlow leaves a stream unread while history moves past it. It may still deliver what it has, without gap, but
// must then fail for good.
func testWatchSlow(s *suite) {
	at := s.create("a", "0")
	stream := s.watch("", at)
	var written []int64
	for i := range 10 {
		at = s.update("a", fmt.Sprint(i), at)
		written = append(written, at)
	}
	s.backend.Forget(s.TB, s.store)
	s.create("newest", "")

	ctx, cancel := s.patient()
	defer cancel()
	var last int64
	for {
		events, err := stream.Next(ctx)
		if errors.Is(err, storage.ErrCompacted) {
			break
		}
		if err != nil {
			s.Fatalf("Next on a stream left behind: %v", err)
		}
		for _, e := range events {
			if e.Type == storage.Progress && len(written) > 0 && e.Revision >= written[0] {
				s.Fatalf("the stream left behind tells of progress to %d; writes to see: %v", e.Revision, written)
			}
			if e.Type == storage.Progress {
				continue
			}
			if e.Revision <= last || len(written) > 0 && e.Revision != written[0] {
				s.Fatalf("the stream left behind went from revision %d to %d; writes to see: %v", last, e.Revision, written)
			}
			last, written = e.Revision, written[min(1, len(written)):]
		}
	}
	_, err := stream.Next(ctx)
	s.wantError("second Next on a stream cut off", err, storage.ErrCompacted)
}

// testUnreadStreams leaves streams unread and lists unfinished while four times StreamBytes are written.
func testUnreadStreams(s *suite) {
	bound := s.backend.StreamBytes
	if bound <= 0 {
		return // the backend gives no bound
	}
	const size = 64 << 10
	at := s.create("a", "")
	s.create("b", "")
	var streams []storage.Stream
	used := heap()
	for written := int64(0); written < 4*bound; written += size {
		if len(streams) < 16 {
			streams = append(streams, s.watch("", at), s.watch("b", at))
			s.list("", storage.ListOptions{Limit: 1})
		}
		revision, err := s.store.Update(s.Context(), "a", make([]byte, size), at)
		if err != nil {
			s.Fatalf("Update: %v", err)
		}
		at = revision
	}
	if grown := heap() - used; grown > bound {
		s.Errorf("%d streams that nobody reads hold %d bytes after %d were written, more than %d", len(streams), grown, 4*bound, bound)
	}
	runtime.KeepAlive(streams)
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func testStreamClose(s *suite) {
	start := s.revision()
	stream, idle := s.watch("", start), s.watch("", start)
	result := make(chan error, 1)
	go func() {
		_, err := stream.Next(s.Context())
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
	_, err := stream.Next(s.Context())
	s.wantError("Next on a closed stream", err, storage.ErrClosed)
	s.wantEvents(s.next(idle, 1), storage.Event{Type: storage.Put, Key: "a", Value: []byte("1"), Revision: revision})
}

func testStoreClose(s *suite) {
	closer, ok := storage.As[io.Closer](s.store)
	if !ok {
		return // the suite cannot close this store
	}
	at := s.create("a", "1")
	stream := s.watch("", at)
	result := make(chan error, 1)
	go func() {
		_, err := stream.Next(s.Context())
		result <- err
	}()
	time.Sleep(time.Millisecond)
	if err := closer.Close(); err != nil {
		s.Fatalf("Close: %v", err)
	}
	s.wantError("Next on a store being closed", s.wait(result), storage.ErrClosed)
	if err := closer.Close(); err != nil {
		s.Errorf("second Close: %v", err)
	}
	ctx := s.Context()
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

// testWatchWhileWriting runs writers against watchers that start at different moments; each must see exactly the events
// that a watch of the whole history shows afterwards.
func testWatchWhileWriting(s *suite) {
	const writers, writes, watchers = 4, 30, 6 // 121 changes: inside any history
	start := s.revision()
	prefixes := []string{"", "w1/", "w"} // all match the last key
	seen := make([][]storage.Event, watchers)
	from := make([]int64, watchers)

	var writing, watching sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			if err := churn(s.Context(), s.store, fmt.Sprintf("w%d/", w), writes); err != nil {
				s.Errorf("writer: %v", err)
			}
		})
	}
	for i := range watchers {
		from[i] = s.revision()
		watching.Go(func() {
			ctx, cancel := s.patient()
			defer cancel()
			var err error
			if seen[i], err = follow(ctx, s.store, prefixes[i%len(prefixes)], from[i], "w1/last"); err != nil {
				s.Errorf("watcher: %v", err)
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
