package storagetest

import (
	"context"
	"fmt"
	"sync"

	"github.com/keelson-dev/keelson/storage"
)

// testProgress waits for revisions through streams that most writes do not affect.
func testProgress(s *suite) {
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
	// A requested revision must be reached even if more has been written since.
	s.create("theirs/owed", "")
	owed := s.revision()
	s.create("theirs/more", "")
	asked := s.create("theirs/and more", "")
	s.wantEvents(s.until(other, owed))
	s.wantEvents(s.until(s.watch("none/", owed-1), owed))
	if other.position > asked {
		s.Errorf("a stream tells of progress to %d, the newest revision is %d", other.position, asked)
	}
	// A stream that begins in the past, and one that already waits.
	now := s.revision()
	s.wantEvents(s.until(s.watch("none/", start), now))
	arrived := make(chan error, 1)
	ctx, cancel := s.patient()
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

// testProgressWhileWriting has readers wait for revisions during writes: when a stream has reached a revision, the
// changes it has delivered must make up the state at that revision.
func testProgressWhileWriting(s *suite) {
	const writers, writes = 4, 36 // 144 changes: inside any history
	start := s.revision()
	var writing, reading sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			if err := churn(s.Context(), s.store, fmt.Sprintf("w%d/", w), writes); err != nil {
				s.Errorf("writer: %v", err)
			}
		})
	}
	for r := range 3 {
		prefix := fmt.Sprintf("w%d/", r)
		stream := s.watch(prefix, start)
		reading.Go(func() {
			ctx, cancel := s.patient()
			defer cancel()
			if err := s.keepUp(ctx, stream, 20); err != nil {
				s.Errorf("reader of %q: %v", prefix, err)
			}
		})
	}
	reading.Wait()
	writing.Wait()
}

// keepUp repeatedly asks for the revision, waits until the stream has reached it, and compares.
func (s *suite) keepUp(ctx context.Context, stream *tracked, times int) error {
	state := map[string]storage.Record{}
	for range times {
		revision, err := s.store.Revision(ctx)
		if err != nil {
			return err
		}
		for stream.position < revision {
			events, err := changes(ctx, stream)
			if err != nil {
				return fmt.Errorf("next on the way from %d to %d: %w", stream.position, revision, err)
			}
			for _, e := range events {
				if e.Type == storage.Delete {
					delete(state, e.Key)
				} else {
					state[e.Key] = storage.Record{Key: e.Key, Value: e.Value, Revision: e.Revision}
				}
			}
		}
		page, err := s.store.List(ctx, stream.prefix, storage.ListOptions{Revision: stream.position})
		if err != nil {
			return err
		}
		if !samePages(page.Records, inOrder(state)) {
			return fmt.Errorf("a stream that has come to %d has told of %v; the list at that revision is %v",
				stream.position, inOrder(state), page.Records)
		}
	}
	return nil
}
