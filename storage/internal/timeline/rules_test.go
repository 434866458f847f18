package timeline_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/internal/timeline"
)

// do makes a change that must succeed.
func do(t *testing.T, tl *timeline.Timeline, w timeline.Write) int64 {
	t.Helper()
	revision, err := tl.Do(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

// TestBegin: history before a chosen first revision counts as compacted; Genesis has none.
func TestBegin(t *testing.T) {
	for first, c := range map[int64]struct{ revision, before int64 }{-1: {1, 0}, 0: {1, 0}, 1: {1, 0}, 2: {2, 2}, 1000: {1000, 1000}} {
		tl := timeline.Begin(first, timeline.Limits{})
		if revision, err := tl.Revision(t.Context()); err != nil || revision != c.revision {
			t.Errorf("begun at %d: at %d, %v", first, revision, err)
		}
		if oldest, err := tl.Oldest(t.Context()); err != nil || oldest != c.revision {
			t.Errorf("begun at %d: the oldest is %d, %v", first, oldest, err)
		}
		if _, err := tl.Watch(t.Context(), "", c.before); err != nil {
			t.Errorf("begun at %d: Watch after %d: %v", first, c.before, err)
		}
		if _, err := tl.Watch(t.Context(), "", c.before-1); !errors.Is(err, storage.ErrCompacted) {
			t.Errorf("begun at %d: Watch after %d: %v", first, c.before-1, err)
		}
		if _, err := tl.Watch(t.Context(), "", c.revision+1); !errors.Is(err, storage.ErrFutureRevision) {
			t.Errorf("begun at %d: Watch after %d: %v", first, c.revision+1, err)
		}
	}
}

// TestEnded: under an ended context, and after Close, reads and writes fail.
func TestEnded(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	tl := timeline.New(timeline.Limits{})
	do(t, tl, timeline.Write{Verb: timeline.Create, Key: "a"})
	check := func(ctx context.Context, want error) {
		t.Helper()
		for name, call := range map[string]func() (any, error){
			"Get":      func() (any, error) { return tl.Get(ctx, "a") },
			"List":     func() (any, error) { return tl.List(ctx, "", storage.ListOptions{}) },
			"Revision": func() (any, error) { return tl.Revision(ctx) },
			"Oldest":   func() (any, error) { return tl.Oldest(ctx) },
			"Watch":    func() (any, error) { return tl.Watch(ctx, "", 1) },
			"Do":       func() (any, error) { return tl.Do(ctx, timeline.Write{Verb: timeline.Create, Key: "b"}) },
		} {
			if got, err := call(); !errors.Is(err, want) {
				t.Errorf("%s: %+v, %v; want %v", name, got, err, want)
			}
		}
	}
	check(ended, context.Canceled)
	if revision, err := tl.Revision(t.Context()); err != nil || revision != 2 {
		t.Errorf("at %d, %v", revision, err)
	}
	tl.Close()
	check(t.Context(), storage.ErrClosed)
}

// TestBytes: the history keeps as many bytes as allowed: keys and values before and after each change, and 64 for each
// record.
func TestBytes(t *testing.T) {
	key := func(i int) string { return fmt.Sprintf("key-%06d", i) } // 10 bytes
	value := make([]byte, 26)                                       // 100 in all
	create := func(t *testing.T, tl *timeline.Timeline) {
		for i := range 30 {
			do(t, tl, timeline.Write{Verb: timeline.Create, Key: key(i), Value: value})
		}
	}
	for name, c := range map[string]struct {
		change func(t *testing.T, tl *timeline.Timeline)
		bytes  int64
		kept   int64 // changes
	}{
		"creations":                {create, 1000, 10},
		"creations, a byte less":   {create, 999, 9},
		"creations, a byte more":   {create, 1001, 10},
		"always the newest change": {create, 1, 1},
		"updates": {func(t *testing.T, tl *timeline.Timeline) {
			create(t, tl)
			for i := range 20 {
				do(t, tl, timeline.Write{Verb: timeline.Update, Key: key(i), Value: value, Expected: int64(i) + 2})
			}
		}, 1000, 5},
		"updates to something else": {func(t *testing.T, tl *timeline.Timeline) {
			create(t, tl)
			for i := range 20 {
				do(t, tl, timeline.Write{Verb: timeline.Update, Key: key(i), Value: make([]byte, 126), Expected: int64(i) + 2})
			}
		}, 1000, 3},
		"deletions": {func(t *testing.T, tl *timeline.Timeline) {
			create(t, tl)
			for i := range 20 {
				do(t, tl, timeline.Write{Verb: timeline.Delete, Key: key(i), Expected: int64(i) + 2})
			}
		}, 1000, 10},
		"after a large one": {func(t *testing.T, tl *timeline.Timeline) {
			do(t, tl, timeline.Write{Verb: timeline.Create, Key: "large", Value: make([]byte, 5000)})
			create(t, tl)
		}, 1000, 10},
	} {
		t.Run(name, func(t *testing.T) {
			tl := timeline.New(timeline.Limits{Bytes: c.bytes})
			c.change(t, tl)
			now, err := tl.Revision(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if oldest, err := tl.Oldest(t.Context()); err != nil || now-oldest != c.kept {
				t.Errorf("%d changes are kept, %v; want %d", now-oldest, err, c.kept)
			}
			follow(t, tl, now-c.kept, now)
		})
	}
}

// TestNextPages: a page of a recently read state costs its own size, not that of the changes since; this holds for the
// last eight states. Each state stays as it was.
func TestNextPages(t *testing.T) {
	const records, states = 3000, 8
	tl := timeline.New(timeline.Limits{})
	at := map[string]int64{}
	key := func(i int) string { return fmt.Sprintf("%06d", i) }
	for i := range records {
		at[key(i)] = do(t, tl, timeline.Write{Verb: timeline.Create, Key: key(i), Value: []byte("0")})
	}
	var revisions []int64
	for state := range states + 1 {
		page, err := tl.List(t.Context(), "", storage.ListOptions{Limit: 1})
		if err != nil || !page.More {
			t.Fatalf("%+v, %v", page, err)
		}
		revisions = append(revisions, page.Revision)
		for i := range records / 3 {
			k := key(i*3 + state%3)
			at[k] = do(t, tl, timeline.Write{Verb: timeline.Update, Key: k, Value: fmt.Append(nil, state+1), Expected: at[k]})
		}
	}
	next := func(revision int64) float64 {
		return testing.AllocsPerRun(1, func() {
			page, err := tl.List(t.Context(), "", storage.ListOptions{Revision: revision, After: key(records - 2), Limit: 1})
			if err != nil || len(page.Records) != 1 || page.More || page.Revision != revision {
				t.Errorf("%+v, %v", page, err)
			}
		})
	}
	for i, revision := range slices.Backward(revisions) {
		if allocs := next(revision); (allocs < 50) != (i > 0) {
			t.Errorf("state %d: %v allocations", i, allocs)
		}
	}
	for i, revision := range revisions {
		page, err := tl.List(t.Context(), "", storage.ListOptions{Revision: revision})
		if err != nil || len(page.Records) != records {
			t.Fatalf("state %d: %d records, %v", i, len(page.Records), err)
		}
		for n, r := range page.Records {
			want := 0
			for state := range i {
				if state%3 == n%3 {
					want = state + 1
				}
			}
			if string(r.Value) != fmt.Sprint(want) || r.Revision > revision {
				t.Fatalf("state %d: %s is %s of revision %d, want %d", i, r.Key, r.Value, r.Revision, want)
			}
		}
	}
}

// TestWakes: a waiting reader sees every commit, be it one change or a draft, and the end.
func TestWakes(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, tl *timeline.Timeline, stream storage.Stream)
		want   string
		err    error
	}{
		"a change": {func(t *testing.T, tl *timeline.Timeline, _ storage.Stream) {
			do(t, tl, timeline.Write{Verb: timeline.Create, Key: "a"})
		}, "a", nil},
		"a draft": {func(t *testing.T, tl *timeline.Timeline, _ storage.Stream) {
			draft := tl.Draft()
			for _, key := range []string{"a", "b"} {
				if _, err := draft.Add(timeline.Write{Verb: timeline.Create, Key: key}); err != nil {
					t.Error(err)
				}
			}
			if n := len(draft.Changes()); n != 2 {
				t.Errorf("a draft of %d changes", n)
			}
			tl.Commit(draft)
		}, "a b", nil},
		"the end":              {func(_ *testing.T, tl *timeline.Timeline, _ storage.Stream) { tl.Close() }, "", storage.ErrClosed},
		"the end of the watch": {func(_ *testing.T, _ *timeline.Timeline, s storage.Stream) { s.Close(); s.Close() }, "", storage.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tl := timeline.New(timeline.Limits{})
				stream, err := tl.Watch(t.Context(), "", timeline.Genesis)
				if err != nil {
					t.Fatal(err)
				}
				var keys []string
				done := make(chan error)
				go func() {
					events, err := stream.Next(t.Context())
					for _, e := range events {
						keys = append(keys, e.Key)
					}
					done <- err
				}()
				synctest.Wait()
				c.change(t, tl, stream)
				if err := <-done; !errors.Is(err, c.err) || strings.Join(keys, " ") != c.want {
					t.Errorf("%q, %v; want %q, %v", keys, err, c.want, c.err)
				}
			})
		})
	}
}

// TestReplay: replaying a log restores the state, and a deletion of nothing is refused.
func TestReplay(t *testing.T) {
	tl := timeline.At(10, timeline.Limits{})
	tl.Load(storage.Record{Key: "a", Value: []byte("0"), Revision: 7})
	tl.Load(storage.Record{Key: "b", Value: []byte("1"), Revision: 9})
	before, records := tl.Snapshot()
	for _, c := range []struct {
		event storage.EventType
		key   string
		value []byte
		want  string
	}{
		{storage.Put, "a", []byte("2"), ""},
		{storage.Put, "c", nil, ""},
		{storage.Delete, "b", nil, ""},
		{storage.Delete, "b", nil, `revision 14 deletes "b", which is not there`},
	} {
		if err := tl.Replay(c.event, c.key, c.value); fmt.Sprint(err) != c.want && (err != nil || c.want != "") {
			t.Errorf("Replay of %s: %v, want %s", c.key, err, c.want)
		}
	}
	say := func(records []storage.Record) string {
		var all []string
		for _, r := range records {
			if r.Value == nil {
				t.Errorf("%s has no value", r.Key)
			}
			all = append(all, fmt.Sprintf("%s=%s@%d", r.Key, r.Value, r.Revision))
		}
		return strings.Join(all, " ")
	}
	if got := say(slices.Collect(records)); before != 10 || got != "a=0@7 b=1@9" {
		t.Errorf("the snapshot from before is %s at %d", got, before)
	}
	now, records := tl.Snapshot()
	if got := say(slices.Collect(records)); now != 13 || got != "a=2@11 c=@12" {
		t.Errorf("the snapshot is %s at %d", got, now)
	}
	for range records {
		break // a consumer may stop early
	}
	stream, err := tl.Watch(t.Context(), "", 10)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	events, err := stream.Next(t.Context())
	var all []string
	for _, e := range events {
		all = append(all, fmt.Sprintf("%d %s %s %v %v", e.Type, e.Key, e.Value, e.Prev == nil, e.Revision))
	}
	if want := []string{"1 a 2 false 11", "1 c  true 12", "2 b  false 13"}; err != nil || !slices.Equal(all, want) {
		t.Errorf("told %q, %v; want %q", all, err, want)
	}
}
