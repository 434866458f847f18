package storagetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/keelson-dev/keelson/storage"
)

func testFresh(s *suite) {
	revision := s.revision()
	if revision <= 0 {
		s.Errorf("Revision of a fresh store = %d, want a positive one", revision)
	}
	s.wantPage("List of a fresh store", s.list("", storage.ListOptions{}), revision, false)
	_, err := s.store.Get(s.Context(), "a")
	s.wantError("Get", err, storage.ErrNotFound)
	s.quiet(s.watch("", revision))
}

func testCreate(s *suite) {
	before := s.revision()
	first := s.create("a", "1")
	if first <= before {
		s.Errorf("Create got revision %d, not above %d", first, before)
	}
	s.wantRecord("a", "1", first)

	_, err := s.store.Create(s.Context(), "a", []byte("2"))
	s.wantError("Create of a live key", err, storage.ErrExists)
	s.wantRecord("a", "1", first)

	gone := s.delete("a", first)
	again := s.create("a", "3")
	if again <= gone {
		s.Errorf("second Create got revision %d, not above %d", again, gone)
	}
	s.wantRecord("a", "3", again)
}

func testUpdate(s *suite) {
	first := s.create("a", "1")
	second := s.update("a", "2", first)
	if second <= first {
		s.Errorf("Update got revision %d, not above %d", second, first)
	}
	s.wantRecord("a", "2", second)

	for _, expected := range []int64{first, second + 1, 0, -1} {
		_, err := s.store.Update(s.Context(), "a", []byte("3"), expected)
		s.wantError(fmt.Sprintf("Update expecting %d of a record at %d", expected, second), err, storage.ErrConflict)
	}
	_, err := s.store.Update(s.Context(), "b", []byte("3"), second)
	s.wantError("Update of a key never written", err, storage.ErrNotFound)
	s.delete("a", second)
	_, err = s.store.Update(s.Context(), "a", []byte("3"), second)
	s.wantError("Update of a deleted key", err, storage.ErrNotFound)

	third := s.create("a", "4")
	_, err = s.store.Update(s.Context(), "a", []byte("5"), second)
	s.wantError("Update expecting the revision before a deletion", err, storage.ErrConflict)
	s.wantRecord("a", "4", third)

	same := s.update("a", "4", third)
	if same <= third {
		s.Errorf("Update with the same value got revision %d, not above %d", same, third)
	}
}

func testDelete(s *suite) {
	first := s.create("a", "1")
	other := s.create("b", "1")
	for _, expected := range []int64{other, 0, -1} {
		_, err := s.store.Delete(s.Context(), "a", expected)
		s.wantError(fmt.Sprintf("Delete expecting %d of a record at %d", expected, first), err, storage.ErrConflict)
	}
	s.wantRecord("a", "1", first)

	gone := s.delete("a", first)
	if gone <= other {
		s.Errorf("Delete got revision %d, not above %d", gone, other)
	}
	if now := s.revision(); now != gone {
		s.Errorf("Revision after the deletion at %d = %d", gone, now)
	}
	_, err := s.store.Get(s.Context(), "a")
	s.wantError("Get of a deleted key", err, storage.ErrNotFound)
	for _, key := range []string{"a", "never"} {
		_, err = s.store.Delete(s.Context(), key, first)
		s.wantError("Delete of "+key, err, storage.ErrNotFound)
	}
	s.wantRecord("b", "1", other)
}

func testRefused(s *suite) {
	first := s.create("a", "1")
	stream := s.watch("", first)
	_, err := s.store.Create(s.Context(), "a", []byte("2"))
	s.wantError("Create", err, storage.ErrExists)
	_, err = s.store.Update(s.Context(), "a", []byte("2"), first+1)
	s.wantError("Update", err, storage.ErrConflict)
	_, err = s.store.Delete(s.Context(), "a", first-1)
	s.wantError("Delete", err, storage.ErrConflict)
	_, err = s.store.Create(s.Context(), "", []byte("2"))
	s.wantError("Create of the empty key", err, storage.ErrEmptyKey)
	_, err = s.store.Update(s.Context(), "", []byte("2"), first)
	s.wantError("Update of the empty key", err, storage.ErrEmptyKey)
	_, err = s.store.Delete(s.Context(), "", first)
	s.wantError("Delete of the empty key", err, storage.ErrEmptyKey)
	if now := s.revision(); now != first {
		s.Errorf("refused writes moved the revision from %d to %d", first, now)
	}
	s.quiet(stream)
}

func testKeysAndValues(s *suite) {
	long := strings.Repeat("long/", 200)
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	for key, value := range map[string][]byte{
		"/registry/pods/default/a": []byte("text"),
		"no slash":                 {},
		"\x00":                     {0},
		"\xff\xfe not UTF-8":       {0xff, 0xfe},
		long:                       []byte(long),
		"nil":                      nil,
		string(every):              every,
		"a\x00":                    []byte("a key with a zero byte"),
		"a\x00b":                   []byte("another"),
		"a":                        []byte("\x00"),
		" ":                        []byte(" \n"),
		"//":                       []byte("//"),
		"ключ/鍵":                   []byte("значение"),
		"..":                       []byte("../.."),
	} {
		revision, err := s.store.Create(s.Context(), key, value)
		if err != nil {
			s.Fatalf("Create(%q) with %d bytes: %v", key, len(value), err)
		}
		record, err := s.store.Get(s.Context(), key)
		if err != nil || !sameRecord(record, storage.Record{Key: key, Value: value, Revision: revision}) {
			s.Errorf("Get(%q) = %s, %v; want %s at %d", key, showRecord(record), err, brief(value), revision)
		}
		page := s.list(key, storage.ListOptions{Limit: 1})
		if len(page.Records) != 1 || !sameRecord(page.Records[0], record) {
			s.Errorf("List(%q) = %v, want %s", key, page.Records, showRecord(record))
		}
		events := s.next(s.watch(key, revision-1), 1)
		want := value
		if want == nil {
			want = []byte{}
		}
		s.wantEvents(events, storage.Event{Type: storage.Put, Key: key, Value: want, Revision: revision})
	}
	if page := s.list("", storage.ListOptions{}); !slices.IsSortedFunc(page.Records, func(a, b storage.Record) int {
		return strings.Compare(a.Key, b.Key)
	}) {
		s.Errorf("a list is not in bytewise order of keys: %q", keysOf(page.Records))
	}
}

func keysOf(records []storage.Record) []string {
	var keys []string
	for _, r := range records {
		keys = append(keys, r.Key)
	}
	return keys
}

// testLimits writes what every backend takes, and more, which must be stored completely or refused.
func testLimits(s *suite) {
	for _, size := range []int{1 << 20, 1<<20 + 1, 3 << 20, 20 << 20} {
		key := fmt.Sprintf("%08d", size)
		value := bytes.Repeat([]byte{0, 1, 2, 0xff}, size/4+1)[:size-len(key)]
		before := s.revision()
		revision, err := s.store.Create(s.Context(), key, value)
		if size > 1<<20 && errors.Is(err, storage.ErrTooLarge) {
			_, err = s.store.Get(s.Context(), key)
			s.wantError("Get after a Create that failed with ErrTooLarge", err, storage.ErrNotFound)
			small := s.create(key, "small")
			_, err = s.store.Update(s.Context(), key, value, small)
			s.wantError("Update with more bytes than Create takes", err, storage.ErrTooLarge)
			s.wantRecord(key, "small", small)
			continue
		}
		if err != nil {
			s.Fatalf("Create of key and value of %d bytes: %v", size, err)
		}
		s.wantRecord(key, string(value), revision)
		s.wantEvents(s.until(s.watch(key, before), revision), storage.Event{Type: storage.Put, Key: key, Value: value, Revision: revision})
		if page := s.list(key, storage.ListOptions{}); len(page.Records) != 1 || !bytes.Equal(page.Records[0].Value, value) {
			s.Errorf("a list does not show the record of %d bytes", size)
		}
	}
}

func testRevisions(s *suite) {
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
			s.Fatalf("write %d got revision %d after %d", i, revision, last)
		}
		if now := s.revision(); now != revision {
			s.Fatalf("Revision = %d after a write at %d", now, revision)
		}
		last = revision
	}
}

func testEndedContext(s *suite) {
	first := s.create("a", "1")
	stream := s.watch("", first)
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	_, err := stream.Next(ctx)
	s.wantError("Next", err, context.Canceled)
	for name, call := range map[string]func() error{
		"Get":      func() error { _, err := s.store.Get(ctx, "a"); return err },
		"List":     func() error { _, err := s.store.List(ctx, "", storage.ListOptions{}); return err },
		"Revision": func() error { _, err := s.store.Revision(ctx); return err },
	} {
		if err := call(); err != nil && !errors.Is(err, context.Canceled) {
			s.Errorf("%s under an ended context: %v, want success or the context's error", name, err)
		}
	}
	// A write under an ended context may or may not happen; its answer must be true.
	revision, err := s.store.Update(ctx, "a", []byte("2"), first)
	switch {
	case err == nil:
		s.wantRecord("a", "2", revision)
	case !errors.Is(err, context.Canceled):
		s.Errorf("Update: %v, want success or the context's error", err)
	}
	revision = s.create("b", "1")
	events := s.until(stream, revision)
	if n := len(events); n == 0 || events[n-1].Key != "b" {
		s.Errorf("a stream whose Next had an ended context goes on with\n%s", show(events))
	}
}

// testCompareAndSwap has writers replace one record at one revision: exactly one wins.
func testCompareAndSwap(s *suite) {
	const writers, rounds = 8, 10
	at := s.create("a", "first")
	for range rounds {
		var won, deleted [writers]int64
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				revision, err := s.store.Update(s.Context(), "a", fmt.Append(nil, w), at)
				if err != nil && !errors.Is(err, storage.ErrConflict) {
					s.Errorf("Update: %v", err)
				}
				won[w] = revision
			})
		}
		wg.Wait()
		at = s.winner("replaced", won[:])
		for w := range writers {
			wg.Go(func() {
				revision, err := s.store.Delete(s.Context(), "a", at)
				if err != nil && !errors.Is(err, storage.ErrConflict) && !errors.Is(err, storage.ErrNotFound) {
					s.Errorf("Delete: %v", err)
				}
				deleted[w] = revision
			})
		}
		wg.Wait()
		if gone := s.winner("deleted", deleted[:]); gone <= at {
			s.Errorf("a record of revision %d was deleted at %d", at, gone)
		}
		at = s.create("a", "again")
	}
}

// winner returns the one revision among those that writers got.
func (s *suite) winner(what string, got []int64) int64 {
	s.Helper()
	revisions := slices.DeleteFunc(got, func(r int64) bool { return r == 0 })
	if len(revisions) != 1 {
		s.Fatalf("%d writers %s the same record of the same revision", len(revisions), what)
	}
	return revisions[0]
}

// testCounter has writers compete for one record: every increment must count exactly once.
func testCounter(s *suite) {
	const writers, increments = 8, 25
	s.create("counter", "0")
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range increments {
				if err := increment(s.Context(), s.store, "counter"); err != nil {
					s.Errorf("increment: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	record, err := s.store.Get(s.Context(), "counter")
	if want := fmt.Sprint(writers * increments); err != nil || string(record.Value) != want {
		s.Errorf("counter = %s, %v; want %s", record.Value, err, want)
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

func testCreateRace(s *suite) {
	const writers, keys = 8, 20
	var won [keys][writers]int64
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for k := range keys {
				revision, err := s.store.Create(s.Context(), fmt.Sprint("k", k), fmt.Append(nil, w))
				if err != nil && !errors.Is(err, storage.ErrExists) {
					s.Errorf("Create: %v", err)
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
			s.Errorf("%d writers created key %d", winners, k)
		}
	}
}

// testReadYourWrites checks that a write is visible to every kind of reader when it returns.
func testReadYourWrites(s *suite) {
	const writers, writes = 4, 25
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			prefix := fmt.Sprintf("w%d/", w)
			for i := range writes {
				key := fmt.Sprint(prefix, i)
				revision, err := s.store.Create(s.Context(), key, []byte("x"))
				if err != nil {
					s.Errorf("Create: %v", err)
					return
				}
				if now, err := s.store.Revision(s.Context()); err != nil || now < revision {
					s.Errorf("Revision = %d, %v after a write at %d", now, err, revision)
				}
				if record, err := s.store.Get(s.Context(), key); err != nil || record.Revision != revision {
					s.Errorf("Get(%q) = %s, %v after a write at %d", key, showRecord(record), err, revision)
				}
				page, err := s.store.List(s.Context(), prefix, storage.ListOptions{})
				if err != nil || len(page.Records) != i+1 || page.Revision < revision {
					s.Errorf("List(%q) = %d records at %d, %v after %d writes, the last at %d", prefix, len(page.Records), page.Revision, err, i+1, revision)
				}
			}
		})
	}
	wg.Wait()
}
