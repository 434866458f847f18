package storagetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/keelson-dev/keelson/storage"
)

func testHistorian(s *suite) {
	historian, ok := storage.As[storage.Historian](s.store)
	if !ok {
		return
	}
	oldest := func() int64 {
		s.Helper()
		revision, err := historian.Oldest(s.Context())
		if err != nil {
			s.Fatalf("Oldest: %v", err)
		}
		return revision
	}
	at := s.create("a", "0")
	for i := range 20 {
		at = s.update("a", fmt.Sprint(i), at)
	}
	for _, forget := range []bool{false, true} {
		newest := s.revision()
		if forget {
			s.backend.Forget(s.TB, s.store)
		}
		now, first := s.revision(), oldest()
		if first <= 0 || first > now {
			s.Fatalf("Oldest = %d in a store at %d", first, now)
		}
		if forget && first < newest {
			s.Errorf("Oldest = %d although the history before %d was to be forgotten", first, newest)
		}
		if page := s.list("", storage.ListOptions{Revision: first}); page.Revision != first {
			s.Errorf("List at Oldest, %d, is at %d", first, page.Revision)
		}
		s.sameState(first, s.until(s.watch("", first), now))
		if first == 1 {
			continue // there is nothing older to ask for
		}
		_, err := s.store.List(s.Context(), "", storage.ListOptions{Revision: first - 1})
		s.wantError("List before Oldest", err, storage.ErrCompacted)
		_, err = s.store.Watch(s.Context(), "", first-1)
		s.wantError("Watch from before Oldest", err, storage.ErrCompacted)
	}
}

// sameState checks that the state at a revision and the changes since make up the newest state.
func (s *suite) sameState(revision int64, changes []storage.Event) {
	s.Helper()
	state := map[string]storage.Record{}
	for _, r := range s.list("", storage.ListOptions{Revision: revision}).Records {
		state[r.Key] = r
	}
	for _, e := range changes {
		if delete(state, e.Key); e.Type == storage.Put {
			state[e.Key] = storage.Record{Key: e.Key, Value: e.Value, Revision: e.Revision}
		}
	}
	if page := s.list("", storage.ListOptions{}); !samePages(page.Records, inOrder(state)) {
		s.Errorf("the list at %d and the changes since make %d records that are not the %d of the newest list", revision, len(state), len(page.Records))
	}
}

func testCompactor(s *suite) {
	compactor, ok := storage.As[storage.Compactor](s.store)
	if !ok {
		return
	}
	ctx := s.Context()
	first := s.create("a", "0")
	at := []int64{first}
	for i := range 20 {
		at = append(at, s.update("a", fmt.Sprint(i), at[i]))
	}
	cut, newest := at[10], at[20]
	behind := s.watch("", first)
	if err := compactor.Compact(ctx, cut); err != nil {
		s.Fatalf("Compact(%d): %v", cut, err)
	}
	for _, gone := range []int64{cut, at[3]} {
		if err := compactor.Compact(ctx, gone); err != nil {
			s.Errorf("Compact(%d) after Compact(%d): %v", gone, cut, err)
		}
	}
	s.wantError("Compact of a revision not yet written", compactor.Compact(ctx, s.revision()+1000), storage.ErrFutureRevision)

	s.wantPage("List at the revision of Compact", s.list("", storage.ListOptions{Revision: cut}), cut, false, "a")
	if events := s.until(s.watch("", cut), newest); len(events) != 10 || events[0].Revision != at[11] {
		s.Errorf("Watch from the revision of Compact, %d, tells\n%s", cut, show(events))
	}
	_, err := s.store.List(ctx, "", storage.ListOptions{Revision: at[9]})
	s.wantError("List before the revision of Compact", err, storage.ErrCompacted)
	_, err = s.store.Watch(ctx, "", at[9])
	s.wantError("Watch from before the revision of Compact", err, storage.ErrCompacted)

	// A stream that was behind delivers everything, or fails.
	patient, cancel := s.patient()
	defer cancel()
	var told []storage.Event
	for behind.position < newest {
		events, err := changes(patient, behind)
		if errors.Is(err, storage.ErrCompacted) {
			break
		}
		if err != nil {
			s.Fatalf("Next on a stream behind Compact: %v", err)
		}
		told = append(told, events...)
	}
	for i, e := range told {
		if i+1 >= len(at) || e.Revision != at[i+1] {
			s.Fatalf("a stream behind Compact does not tell the %d changes in order:\n%s", len(at)-1, show(told))
		}
	}
}

func testLessorExpires(s *suite) {
	lessor, ok := storage.As[storage.Lessor](s.store)
	if !ok {
		return
	}
	ttl := max(s.backend.ShortestTTL, time.Second)
	stream := s.watch("", s.revision())
	began := time.Now()
	mortal, err := lessor.CreateFor(s.Context(), "created", []byte("1"), ttl)
	if err != nil {
		s.Fatalf("CreateFor: %v", err)
	}
	at := s.create("updated", "0")
	updated, err := lessor.UpdateFor(s.Context(), "updated", []byte("1"), at, ttl)
	if err != nil {
		s.Fatalf("UpdateFor: %v", err)
	}
	s.wantRecord("updated", "1", updated)

	want := []storage.Event{
		{Type: storage.Put, Key: "created", Value: []byte("1"), Revision: mortal},
		{Type: storage.Put, Key: "updated", Value: []byte("0"), Revision: at},
		{Type: storage.Put, Key: "updated", Value: []byte("1"), Prev: []byte("0"), Revision: updated},
	}
	s.wantEvents(s.next(stream, 3), want...)
	gone := map[string]bool{}
	last := updated
	for _, e := range s.next(stream, 2) {
		if lived := time.Since(began); lived < ttl {
			s.Errorf("%q was deleted after %v, its time was %v", e.Key, lived, ttl)
		}
		if e.Type != storage.Delete || e.Value != nil || string(e.Prev) != "1" || e.Revision <= last {
			s.Errorf("the end of a record's time is told as\n%s", show([]storage.Event{e}))
		}
		last = e.Revision
		gone[e.Key] = true
		_, err := s.store.Get(s.Context(), e.Key)
		s.wantError("Get of a record whose time is over", err, storage.ErrNotFound)
	}
	if !gone["created"] || !gone["updated"] {
		s.Errorf("only %v went", gone)
	}
	if now := s.revision(); now < last {
		s.Errorf("Revision = %d after a record went at %d", now, last)
	}
	s.wantPage("List after records went", s.list("", storage.ListOptions{Revision: last}), last, false)
	again := s.create("created", "2")
	s.wantRecord("created", "2", again)
}

func testLessorStays(s *suite) {
	lessor, ok := storage.As[storage.Lessor](s.store)
	if !ok {
		return
	}
	ctx, ttl := s.Context(), max(s.backend.ShortestTTL, time.Second)
	live := s.create("live", "1")
	_, err := lessor.CreateFor(ctx, "live", nil, ttl)
	s.wantError("CreateFor of a live key", err, storage.ErrExists)
	_, err = lessor.UpdateFor(ctx, "live", nil, live+1, ttl)
	s.wantError("UpdateFor expecting another revision", err, storage.ErrConflict)
	_, err = lessor.UpdateFor(ctx, "never", nil, live, ttl)
	s.wantError("UpdateFor of a key never written", err, storage.ErrNotFound)
	_, err = lessor.CreateFor(ctx, "", nil, ttl)
	s.wantError("CreateFor of the empty key", err, storage.ErrEmptyKey)
	s.wantRecord("live", "1", live)

	// The end of one record shows that the time of the other, which began earlier, is over, too.
	stays, err := lessor.CreateFor(ctx, "stays", []byte("1"), ttl)
	if err != nil {
		s.Fatalf("CreateFor: %v", err)
	}
	longer, err := lessor.CreateFor(ctx, "longer", []byte("1"), ttl)
	if err != nil {
		s.Fatalf("CreateFor: %v", err)
	}
	stays = s.update("stays", "2", stays)
	if longer, err = lessor.UpdateFor(ctx, "longer", []byte("2"), longer, time.Hour); err != nil {
		s.Fatalf("UpdateFor: %v", err)
	}
	for i := range 2 {
		goes, err := lessor.CreateFor(ctx, "goes", nil, ttl)
		if err != nil {
			s.Fatalf("CreateFor %d: %v", i, err)
		}
		if events := s.next(s.watch("goes", goes), 1); events[0].Type != storage.Delete {
			s.Fatalf("the end of a record's time is told as\n%s", show(events))
		}
	}
	s.wantRecord("stays", "2", stays)
	s.wantRecord("longer", "2", longer)
	s.wantRecord("live", "1", live)
	s.wantError("Delete of a record that has a time", s.deleted("longer", longer), nil)
}

func (s *suite) deleted(key string, expected int64) error {
	_, err := s.store.Delete(s.Context(), key, expected)
	return err
}

func testRefresher(s *suite) {
	refresher, ok := storage.As[storage.Refresher](s.store)
	if !ok {
		return
	}
	_, err := refresher.Stale(s.Context(), "a")
	s.wantError("Stale of a key never written", err, storage.ErrNotFound)
	at := s.create("a", "1")
	for range 2 {
		if stale, err := refresher.Stale(s.Context(), "a"); err != nil || stale {
			s.Errorf("Stale of a record just written = %v, %v", stale, err)
		}
		at = s.update("a", "1", at)
	}
	s.delete("a", at)
	_, err = refresher.Stale(s.Context(), "a")
	s.wantError("Stale of a deleted key", err, storage.ErrNotFound)
}
