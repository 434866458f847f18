package storagetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/storage"
)

// suite is the store of one case, with the checks that cases share.
type suite struct {
	testing.TB
	backend Backend
	store   storage.Store
}

// silence is how long a case waits to see that a stream with nothing to deliver blocks.
const silence = 20 * time.Millisecond

// patience is how long a stream may take to deliver.
func (s *suite) patience() time.Duration {
	if s.backend.Patience > 0 {
		return s.backend.Patience
	}
	return 30 * time.Second
}

func (s *suite) patient() (context.Context, context.CancelFunc) {
	return context.WithTimeout(s.Context(), s.patience())
}

// open returns another store, for a check that needs several.
func (s *suite) open() *suite {
	s.Helper()
	return &suite{TB: s.TB, backend: s.backend, store: s.backend.Open(s.TB)}
}

func (s *suite) create(key, value string) int64 {
	s.Helper()
	revision, err := s.store.Create(s.Context(), key, []byte(value))
	if err != nil {
		s.Fatalf("Create(%q): %v", key, err)
	}
	return revision
}

func (s *suite) update(key, value string, expected int64) int64 {
	s.Helper()
	revision, err := s.store.Update(s.Context(), key, []byte(value), expected)
	if err != nil {
		s.Fatalf("Update(%q, expected %d): %v", key, expected, err)
	}
	return revision
}

func (s *suite) delete(key string, expected int64) int64 {
	s.Helper()
	revision, err := s.store.Delete(s.Context(), key, expected)
	if err != nil {
		s.Fatalf("Delete(%q, expected %d): %v", key, expected, err)
	}
	return revision
}

func (s *suite) revision() int64 {
	s.Helper()
	revision, err := s.store.Revision(s.Context())
	if err != nil {
		s.Fatalf("Revision: %v", err)
	}
	return revision
}

func (s *suite) list(prefix string, options storage.ListOptions) storage.Page {
	s.Helper()
	page, err := s.store.List(s.Context(), prefix, options)
	if err != nil {
		s.Fatalf("List(%q, %+v): %v", prefix, options, err)
	}
	return page
}

func (s *suite) watch(prefix string, after int64) *tracked {
	s.Helper()
	stream, err := s.store.Watch(s.Context(), prefix, after)
	if err != nil {
		s.Fatalf("Watch(%q, after %d): %v", prefix, after, err)
	}
	s.Cleanup(stream.Close)
	return &tracked{Stream: stream, suite: s, prefix: prefix, position: after}
}

// tracked is a stream whose events are checked against what every stream promises.
type tracked struct {
	storage.Stream
	suite    *suite
	prefix   string
	position int64
}

// Next implements storage.Stream.
func (s *tracked) Next(ctx context.Context) ([]storage.Event, error) {
	events, err := s.Stream.Next(ctx)
	if err == nil && len(events) == 0 {
		return nil, errors.New("Next returned neither events nor an error")
	}
	for _, e := range events {
		switch {
		case e.Type != storage.Progress && e.Revision <= s.position:
			s.suite.Errorf("a stream that is at revision %d tells of\n%s", s.position, show(events))
		case e.Type == storage.Progress && e.Revision < s.position:
			s.suite.Errorf("a stream that is at revision %d tells of progress to %d", s.position, e.Revision)
		case e.Type == storage.Progress && (e.Key != "" || e.Value != nil || e.Prev != nil || e.Err != nil):
			s.suite.Errorf("a Progress event has more than its revision: %+v", e)
		case e.Type != storage.Progress && !strings.HasPrefix(e.Key, s.prefix):
			s.suite.Errorf("a stream of %q tells of %q", s.prefix, e.Key)
		}
		s.position = max(s.position, e.Revision)
	}
	return events, err
}

// changes is Next without Progress events: it may return none.
func changes(ctx context.Context, stream storage.Stream) ([]storage.Event, error) {
	events, err := stream.Next(ctx)
	return slices.DeleteFunc(events, func(e storage.Event) bool { return e.Type == storage.Progress }), err
}

// next reads exactly n changes, which may come in several batches.
func (s *suite) next(stream storage.Stream, n int) []storage.Event {
	s.Helper()
	ctx, cancel := s.patient()
	defer cancel()
	var events []storage.Event
	for len(events) < n {
		batch, err := changes(ctx, stream)
		if err != nil {
			s.Fatalf("Next after %d of %d changes: %v", len(events), n, err)
		}
		events = append(events, batch...)
	}
	if len(events) > n {
		s.Fatalf("stream delivered %d changes, want %d: %s", len(events), n, show(events))
	}
	return events
}

// until reads a stream up to a revision that was returned by Revision or belongs to an expected change, and returns the
// changes.
func (s *suite) until(stream *tracked, revision int64) []storage.Event {
	s.Helper()
	ctx, cancel := s.patient()
	defer cancel()
	var events []storage.Event
	for stream.position < revision {
		batch, err := changes(ctx, stream)
		if err != nil {
			s.Fatalf("Next on the way from %d to %d, after %d changes: %v", stream.position, revision, len(events), err)
		}
		events = append(events, batch...)
	}
	return events
}

// quiet checks that a stream has no changes to deliver up to the store's revision, and then blocks.
func (s *suite) quiet(stream *tracked) {
	s.Helper()
	if events := s.until(stream, s.revision()); len(events) > 0 {
		s.Fatalf("a stream without news tells of\n%s", show(events))
	}
	ctx, cancel := context.WithTimeout(s.Context(), silence)
	defer cancel()
	for range 1000 {
		events, err := changes(ctx, stream)
		if errors.Is(err, context.DeadlineExceeded) && len(events) == 0 {
			return
		}
		if err != nil || len(events) > 0 {
			s.Fatalf("Next on a stream without news = %s, %v; want the context's error", show(events), err)
		}
	}
	s.Fatalf("Next on a stream without news tells of progress without end")
}

func (s *suite) wantError(what string, err, want error) {
	s.Helper()
	if !errors.Is(err, want) {
		s.Errorf("%s: error %v, want %v", what, err, want)
	}
}

func (s *suite) wantRecord(key, value string, revision int64) {
	s.Helper()
	record, err := s.store.Get(s.Context(), key)
	if err != nil {
		s.Fatalf("Get(%q): %v", key, err)
	}
	if got, want := record, (storage.Record{Key: key, Value: []byte(value), Revision: revision}); !sameRecord(got, want) {
		s.Errorf("Get(%q) = %s, want %s", key, showRecord(got), showRecord(want))
	}
}

func (s *suite) wantEvents(got []storage.Event, want ...storage.Event) {
	s.Helper()
	if !sameEvents(got, want) {
		s.Fatalf("events\n%s, want\n%s", show(got), show(want))
	}
}

func (s *suite) wantPage(what string, got storage.Page, revision int64, more bool, keys ...string) {
	s.Helper()
	var gotKeys []string
	for _, r := range got.Records {
		gotKeys = append(gotKeys, r.Key)
	}
	if got.Revision != revision || got.More != more || fmt.Sprint(gotKeys) != fmt.Sprint(keys) {
		s.Errorf("%s = %q at %d, more %v; want %q at %d, more %v", what, gotKeys, got.Revision, got.More, keys, revision, more)
	}
}
