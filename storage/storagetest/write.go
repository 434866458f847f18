package storagetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/keelson-dev/keelson/storage"
)

func testFresh(t *testing.T, s *suite) {
	revision := s.revision()
	if revision <= 0 {
		t.Errorf("Revision of a fresh store = %d, want a positive one", revision)
	}
	s.wantPage("List of a fresh store", s.list("", storage.ListOptions{}), revision, false)
	_, err := s.store.Get(t.Context(), "a")
	s.wantError("Get", err, storage.ErrNotFound)
	s.quiet(s.watch("", revision))
}

func testCreate(t *testing.T, s *suite) {
	before := s.revision()
	first := s.create("a", "1")
	if first <= before {
		t.Errorf("Create got revision %d, not above %d", first, before)
	}
	s.wantRecord("a", "1", first)

	_, err := s.store.Create(t.Context(), "a", []byte("2"))
	s.wantError("Create of a live key", err, storage.ErrExists)
	s.wantRecord("a", "1", first)

	gone := s.delete("a", first)
	again := s.create("a", "3")
	if again <= gone {
		t.Errorf("second Create got revision %d, not above %d", again, gone)
	}
	s.wantRecord("a", "3", again)
}

func testUpdate(t *testing.T, s *suite) {
	first := s.create("a", "1")
	second := s.update("a", "2", first)
	if second <= first {
		t.Errorf("Update got revision %d, not above %d", second, first)
	}
	s.wantRecord("a", "2", second)

	for _, expected := range []int64{first, second + 1, 0, -1} {
		_, err := s.store.Update(t.Context(), "a", []byte("3"), expected)
		s.wantError(fmt.Sprintf("Update expecting %d of a record at %d", expected, second), err, storage.ErrConflict)
	}
	_, err := s.store.Update(t.Context(), "b", []byte("3"), second)
	s.wantError("Update of a key never written", err, storage.ErrNotFound)
	s.delete("a", second)
	_, err = s.store.Update(t.Context(), "a", []byte("3"), second)
	s.wantError("Update of a deleted key", err, storage.ErrNotFound)

	third := s.create("a", "4")
	_, err = s.store.Update(t.Context(), "a", []byte("5"), second)
	s.wantError("Update expecting the revision before a deletion", err, storage.ErrConflict)
	s.wantRecord("a", "4", third)

	same := s.update("a", "4", third)
	if same <= third {
		t.Errorf("Update with the same value got revision %d, not above %d", same, third)
	}
}

func testDelete(t *testing.T, s *suite) {
	first := s.create("a", "1")
	other := s.create("b", "1")
	for _, expected := range []int64{other, 0, -1} {
		_, err := s.store.Delete(t.Context(), "a", expected)
		s.wantError(fmt.Sprintf("Delete expecting %d of a record at %d", expected, first), err, storage.ErrConflict)
	}
	s.wantRecord("a", "1", first)

	gone := s.delete("a", first)
	if gone <= other {
		t.Errorf("Delete got revision %d, not above %d", gone, other)
	}
	if now := s.revision(); now != gone {
		t.Errorf("Revision after the deletion at %d = %d", gone, now)
	}
	_, err := s.store.Get(t.Context(), "a")
	s.wantError("Get of a deleted key", err, storage.ErrNotFound)
	for _, key := range []string{"a", "never"} {
		_, err = s.store.Delete(t.Context(), key, first)
		s.wantError("Delete of "+key, err, storage.ErrNotFound)
	}
	s.wantRecord("b", "1", other)
}

func testRefused(t *testing.T, s *suite) {
	first := s.create("a", "1")
	stream := s.watch("", first)
	_, err := s.store.Create(t.Context(), "a", []byte("2"))
	s.wantError("Create", err, storage.ErrExists)
	_, err = s.store.Update(t.Context(), "a", []byte("2"), first+1)
	s.wantError("Update", err, storage.ErrConflict)
	_, err = s.store.Delete(t.Context(), "a", first-1)
	s.wantError("Delete", err, storage.ErrConflict)
	_, err = s.store.Create(t.Context(), "", []byte("2"))
	s.wantError("Create of the empty key", err, storage.ErrEmptyKey)
	_, err = s.store.Update(t.Context(), "", []byte("2"), first)
	s.wantError("Update of the empty key", err, storage.ErrEmptyKey)
	_, err = s.store.Delete(t.Context(), "", first)
	s.wantError("Delete of the empty key", err, storage.ErrEmptyKey)
	if now := s.revision(); now != first {
		t.Errorf("refused writes moved the revision from %d to %d", first, now)
	}
	s.quiet(stream)
}

func testKeysAndValues(t *testing.T, s *suite) {
	long := strings.Repeat("long/", 200)
	large := bytes.Repeat([]byte{0, 1, 2, 0xff}, 2<<20/4-1024)
	for key, value := range map[string][]byte{
		"/registry/pods/default/a": []byte("text"),
		"no slash":                 {},
		"\x00":                     {0},
		"\xff\xfe not UTF-8":       {0xff, 0xfe},
		long:                       []byte(long),
		"large":                    large,
		"nil":                      nil,
	} {
		revision, err := s.store.Create(t.Context(), key, value)
		if err != nil {
			t.Fatalf("Create(%q) with %d bytes: %v", key, len(value), err)
		}
		record, err := s.store.Get(t.Context(), key)
		if err != nil || !sameRecord(record, storage.Record{Key: key, Value: value, Revision: revision}) {
			t.Errorf("Get(%q) = %s, %v; want %s at %d", key, showRecord(record), err, brief(value), revision)
		}
		events := s.next(s.watch(key, revision-1), 1)
		want := value
		if want == nil {
			want = []byte{}
		}
		s.wantEvents(events, storage.Event{Type: storage.Put, Key: key, Value: want, Revision: revision})
	}
}

func testRevisions(t *testing.T, s *suite) {
	last := s.revision()
	live := map[string]int64{}
	for i := range 100 {
		key := fmt.Sprint("k", i*7%10)
		expected, there := live[key]
		var revision int64
		switch {
		case !there:
			revision = s.create(key, "x")
			live[key] = revision
		case i%3 == 0:
			revision = s.delete(key, expected)
			delete(live, key)
		default:
			revision = s.update(key, "y", expected)
			live[key] = revision
		}
		if revision <= last {
			t.Fatalf("write %d got revision %d after %d", i, revision, last)
		}
		if now := s.revision(); now != revision {
			t.Fatalf("Revision = %d after a write at %d", now, revision)
		}
		last = revision
	}
}

func testEndedContext(t *testing.T, s *suite) {
	first := s.create("a", "1")
	stream := s.watch("", first)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := stream.Next(ctx)
	s.wantError("Next", err, context.Canceled)
	// A write under an ended context may or may not happen; what it says must be true.
	revision, err := s.store.Update(ctx, "a", []byte("2"), first)
	switch {
	case err == nil:
		s.wantRecord("a", "2", revision)
	case !errors.Is(err, context.Canceled):
		t.Errorf("Update: %v, want success or the context's error", err)
	}
	s.create("b", "1")
}

// testCounter has writers compete for one record: every increment must count exactly once.
func testCounter(t *testing.T, s *suite) {
	const writers, increments = 8, 25
	s.create("counter", "0")
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range increments {
				if err := increment(t.Context(), s.store, "counter"); err != nil {
					t.Errorf("increment: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	record, err := s.store.Get(t.Context(), "counter")
	if want := fmt.Sprint(writers * increments); err != nil || string(record.Value) != want {
		t.Errorf("counter = %s, %v; want %s", record.Value, err, want)
	}
}

func increment(ctx context.Context, store storage.Store, key string) error {
	for {
		record, err := store.Get(ctx, key)
		if err != nil {
			return err
		}
		var n int
		if _, err := fmt.Sscan(string(record.Value), &n); err != nil {
			return err
		}
		_, err = store.Update(ctx, key, fmt.Append(nil, n+1), record.Revision)
		if !errors.Is(err, storage.ErrConflict) {
			return err
		}
	}
}

func testCreateRace(t *testing.T, s *suite) {
	const writers, keys = 8, 20
	var won [keys][writers]int64
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for k := range keys {
				revision, err := s.store.Create(t.Context(), fmt.Sprint("k", k), fmt.Append(nil, w))
				if err != nil && !errors.Is(err, storage.ErrExists) {
					t.Errorf("Create: %v", err)
				}
				won[k][w] = revision
			}
		})
	}
	wg.Wait()
	for k := range keys {
		winners := 0
		for w, revision := range won[k] {
			if revision != 0 {
				winners++
				s.wantRecord(fmt.Sprint("k", k), fmt.Sprint(w), revision)
			}
		}
		if winners != 1 {
			t.Errorf("%d writers created key %d", winners, k)
		}
	}
}

// testReadYourWrites checks that a write is visible to every kind of reader when it returns.
func testReadYourWrites(t *testing.T, s *suite) {
	const writers, writes = 4, 25
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			prefix := fmt.Sprintf("w%d/", w)
			for i := range writes {
				key := fmt.Sprint(prefix, i)
				revision, err := s.store.Create(t.Context(), key, []byte("x"))
				if err != nil {
					t.Errorf("Create: %v", err)
					return
				}
				if now, err := s.store.Revision(t.Context()); err != nil || now < revision {
					t.Errorf("Revision = %d, %v after a write at %d", now, err, revision)
				}
				if record, err := s.store.Get(t.Context(), key); err != nil || record.Revision != revision {
					t.Errorf("Get(%q) = %s, %v after a write at %d", key, showRecord(record), err, revision)
				}
				page, err := s.store.List(t.Context(), prefix, storage.ListOptions{})
				if err != nil || len(page.Records) != i+1 || page.Revision < revision {
					t.Errorf("List(%q) = %d records at %d, %v after %d writes, the last at %d", prefix, len(page.Records), page.Revision, err, i+1, revision)
				}
			}
		})
	}
	wg.Wait()
}
