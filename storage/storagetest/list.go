package storagetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/keelson-dev/keelson/storage"
)

func testListPrefix(s *suite) {
	var last int64
	for _, key := range []string{"/b", "/a/2", "/a/1", "/a", "/a0", "/a/10", "/a\xff", "/a\xff\xff", "/b/1", "c", "c/a/1"} {
		last = s.create(key, "value of "+key)
	}
	for prefix, keys := range map[string][]string{
		"":         {"/a", "/a/1", "/a/10", "/a/2", "/a0", "/a\xff", "/a\xff\xff", "/b", "/b/1", "c", "c/a/1"},
		"/a":       {"/a", "/a/1", "/a/10", "/a/2", "/a0", "/a\xff", "/a\xff\xff"},
		"/a/":      {"/a/1", "/a/10", "/a/2"},
		"/a/1":     {"/a/1", "/a/10"},
		"/a\xff":   {"/a\xff", "/a\xff\xff"},
		"/b":       {"/b", "/b/1"},
		"c":        {"c", "c/a/1"},
		"/c":       nil,
		"/a/3":     nil,
		"\xff\xff": nil,
	} {
		page := s.list(prefix, storage.ListOptions{})
		s.wantPage(fmt.Sprintf("List(%q)", prefix), page, last, false, keys...)
		for _, r := range page.Records {
			s.wantRecord(r.Key, string(r.Value), r.Revision)
			if want := "value of " + r.Key; string(r.Value) != want {
				s.Errorf("List has %q at %q", r.Value, r.Key)
			}
		}
	}
}

func testListPages(s *suite) {
	var last int64
	for _, key := range []string{"a/1", "a/2", "a/3", "a/4", "b/1"} {
		last = s.create(key, key)
	}
	for _, c := range []struct {
		prefix string
		storage.ListOptions
		more bool
		keys []string
	}{
		{"a/", storage.ListOptions{Limit: 1}, true, []string{"a/1"}},
		{"a/", storage.ListOptions{Limit: 3}, true, []string{"a/1", "a/2", "a/3"}},
		{"a/", storage.ListOptions{Limit: 4}, false, []string{"a/1", "a/2", "a/3", "a/4"}},
		{"a/", storage.ListOptions{Limit: 5}, false, []string{"a/1", "a/2", "a/3", "a/4"}},
		{"a/", storage.ListOptions{After: "a/2"}, false, []string{"a/3", "a/4"}},
		{"a/", storage.ListOptions{After: "a/2", Limit: 1}, true, []string{"a/3"}},
		{"a/", storage.ListOptions{After: "a/2", Limit: 2}, false, []string{"a/3", "a/4"}},
		{"a/", storage.ListOptions{After: "a/25"}, false, []string{"a/3", "a/4"}},
		{"a/", storage.ListOptions{After: "a/4"}, false, nil},
		{"a/", storage.ListOptions{After: "b/1"}, false, nil},
		{"a/", storage.ListOptions{After: "A", Limit: 1}, true, []string{"a/1"}},
		{"a/", storage.ListOptions{After: "a/", Limit: 1}, true, []string{"a/1"}},
		{"b/", storage.ListOptions{After: "a/2"}, false, []string{"b/1"}},
		{"", storage.ListOptions{After: "a/4"}, false, []string{"b/1"}},
	} {
		s.wantPage(fmt.Sprintf("List(%q, %+v)", c.prefix, c.ListOptions), s.list(c.prefix, c.ListOptions), last, c.more, c.keys...)
	}

	// The pages of one list do not change during writes.
	for limit := 1; limit <= 5; limit++ {
		first := s.list("a/", storage.ListOptions{Limit: limit})
		page, records := first, first.Records
		for page.More {
			s.delete(s.current("a/4"))
			s.create("a/4", "new")
			s.touch("a/3")
			page = s.list("a/", storage.ListOptions{Revision: first.Revision, Limit: limit, After: records[len(records)-1].Key})
			if page.Revision != first.Revision {
				s.Errorf("page at revision %d, want %d", page.Revision, first.Revision)
			}
			records = append(records, page.Records...)
		}
		whole := s.list("a/", storage.ListOptions{Revision: first.Revision})
		if len(records) != 4 || !samePages(records, whole.Records) {
			s.Errorf("pages of %d held %d records, want what a whole list at %d holds", limit, len(records), first.Revision)
		}
	}
}

// current returns a key and its revision.
func (s *suite) current(key string) (string, int64) {
	s.Helper()
	record, err := s.store.Get(s.Context(), key)
	if err != nil {
		s.Fatal(err)
	}
	return key, record.Revision
}

// touch overwrites a live key.
func (s *suite) touch(key string) {
	s.Helper()
	_, revision := s.current(key)
	s.update(key, fmt.Sprint("after ", revision), revision)
}

func samePages(a, b []storage.Record) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !sameRecord(a[i], b[i]) {
			return false
		}
	}
	return true
}

func testListAtRevision(s *suite) {
	fresh := s.revision()
	a := s.create("a", "1")
	b := s.create("b", "1")
	a2 := s.update("a", "2", a)
	gone := s.delete("b", b)
	b2 := s.create("b", "2")
	for revision, want := range map[int64][]storage.Record{
		fresh: nil,
		a:     {{Key: "a", Value: []byte("1"), Revision: a}},
		b:     {{Key: "a", Value: []byte("1"), Revision: a}, {Key: "b", Value: []byte("1"), Revision: b}},
		a2:    {{Key: "a", Value: []byte("2"), Revision: a2}, {Key: "b", Value: []byte("1"), Revision: b}},
		gone:  {{Key: "a", Value: []byte("2"), Revision: a2}},
		b2:    {{Key: "a", Value: []byte("2"), Revision: a2}, {Key: "b", Value: []byte("2"), Revision: b2}},
	} {
		page := s.list("", storage.ListOptions{Revision: revision})
		if page.Revision != revision || page.More || !samePages(page.Records, want) {
			s.Errorf("List at %d = %v at %d, more %v; want %v", revision, page.Records, page.Revision, page.More, want)
		}
	}
}

func testListRefused(s *suite) {
	old := s.create("a", "1")
	s.update("a", "2", old)
	_, err := s.store.List(s.Context(), "", storage.ListOptions{Revision: s.revision() + 1})
	s.wantError("List at a revision not yet written", err, storage.ErrFutureRevision)
	_, err = s.store.List(s.Context(), "", storage.ListOptions{Revision: 1 << 62, After: "a", Limit: 1})
	s.wantError("page of a list at a revision far ahead", err, storage.ErrFutureRevision)
	_, err = s.store.List(s.Context(), "", storage.ListOptions{Revision: -1})
	s.wantError("List at a negative revision", err, storage.ErrCompacted)

	s.backend.Forget(s.TB, s.store)
	_, err = s.store.List(s.Context(), "", storage.ListOptions{Revision: old})
	s.wantError("List at a forgotten revision", err, storage.ErrCompacted)
	_, err = s.store.List(s.Context(), "", storage.ListOptions{Revision: old, After: "a", Limit: 1})
	s.wantError("page of a list at a forgotten revision", err, storage.ErrCompacted)
	now := s.revision()
	s.wantPage("List at the newest revision", s.list("a", storage.ListOptions{Revision: now}), now, false, "a")
}

// testListWhileWriting lists while keys come and go: a page and the whole list at its revision
// must agree, and no list may hold what was written after its revision.
func testListWhileWriting(s *suite) {
	s.create("x", "")
	done := make(chan error, 1)
	go func() { done <- transfer(s.Context(), s.store, 100) }()
	for finished := false; !finished; {
		select {
		case err := <-done:
			if err != nil {
				s.Fatal(err)
			}
			finished = true
		case <-time.After(time.Microsecond): // in a bubble of virtual time, a store may sleep
		}
		first := s.list("", storage.ListOptions{Limit: 1})
		whole, err := s.store.List(s.Context(), "", storage.ListOptions{Revision: first.Revision})
		if errors.Is(err, storage.ErrCompacted) {
			continue
		}
		if err != nil {
			s.Fatal(err)
		}
		if n := len(whole.Records); n < 1 || n > 2 || first.More != (n > 1) || len(first.Records) != 1 || !sameRecord(first.Records[0], whole.Records[0]) {
			s.Fatalf("first page %v, more %v; the whole list at its revision %v", first.Records, first.More, whole.Records)
		}
		for _, r := range whole.Records {
			if r.Revision > whole.Revision {
				s.Fatalf("List at %d holds %s", whole.Revision, showRecord(r))
			}
		}
	}
}

// testPagesWhileWriting reads lists page by page while keys come and go: together the pages are the
// whole list at the revision of the first.
func testPagesWhileWriting(s *suite) {
	for i := range 10 {
		s.create(fmt.Sprint("k", i), "")
	}
	start := s.revision()
	done := make(chan error, 2)
	for w := range 2 {
		go func() { done <- churn(s.Context(), s.store, fmt.Sprintf("k%d/", 3+5*w), 60) }()
	}
	for finished := 0; finished < 2; {
		select {
		case err := <-done:
			if err != nil {
				s.Fatal(err)
			}
			finished++
		case <-time.After(time.Microsecond):
		}
		page := s.list("", storage.ListOptions{Limit: 3})
		revision, records := page.Revision, page.Records
		for page.More {
			page = s.list("", storage.ListOptions{Limit: 3, Revision: revision, After: records[len(records)-1].Key})
			if page.Revision != revision || len(page.Records) == 0 {
				s.Fatalf("a page of the list at %d has %d records and is at %d", revision, len(page.Records), page.Revision)
			}
			records = append(records, page.Records...)
		}
		if whole := s.list("", storage.ListOptions{Revision: revision}); !samePages(records, whole.Records) {
			s.Fatalf("the pages at %d hold %v, the whole list %v", revision, records, whole.Records)
		}
	}
	// Each of these states can also be derived from the history.
	state := map[string]storage.Record{}
	for _, r := range s.list("", storage.ListOptions{Revision: start}).Records {
		state[r.Key] = r
	}
	for _, e := range s.until(s.watch("", start), s.revision()) {
		if delete(state, e.Key); e.Type == storage.Put {
			state[e.Key] = storage.Record{Key: e.Key, Value: e.Value, Revision: e.Revision}
		}
		if page := s.list("", storage.ListOptions{Revision: e.Revision}); !samePages(page.Records, inOrder(state)) {
			s.Fatalf("List at %d = %v; the changes up to it make %v", e.Revision, page.Records, inOrder(state))
		}
	}
}

// transfer replaces the key x by y and y by x, so that one of them always exists.
func transfer(ctx context.Context, store storage.Store, times int) error {
	from, to := "x", "y"
	x, err := store.Get(ctx, from)
	at := x.Revision
	for range times {
		var next int64
		if err == nil {
			next, err = store.Create(ctx, to, nil)
		}
		if err == nil {
			_, err = store.Delete(ctx, from, at)
		}
		from, to, at = to, from, next
	}
	return err
}
