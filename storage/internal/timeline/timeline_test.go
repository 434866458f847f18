package timeline_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/internal/timeline"
)

// The history is a moving window: at every moment, all of it can be watched and listed, and nothing before it.
func TestWindow(t *testing.T) {
	const history, writes = 70, 300 // so that the ring wraps around after having grown
	ctx := t.Context()
	tl := timeline.New(timeline.Limits{Events: history})
	at := map[string]int64{}
	states := map[int64]string{timeline.Genesis: "[]"} // by revision
	for i := range writes {
		key := fmt.Sprint(i % 3)
		write := timeline.Write{Verb: timeline.Update, Key: key, Value: fmt.Append(nil, i), Expected: at[key]}
		if at[key] == 0 {
			write.Verb = timeline.Create
		}
		if i%10 == 9 {
			write.Verb, write.Value = timeline.Delete, nil
		}
		if write.Verb == timeline.Delete && at[key] == 0 {
			continue
		}
		revision, err := tl.Do(ctx, write)
		if err != nil {
			t.Fatal(err)
		}
		if at[key] = revision; write.Verb == timeline.Delete {
			at[key] = 0
		}
		page, err := tl.List(ctx, "", storage.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		states[revision] = fmt.Sprint(page.Records)

		oldest := max(timeline.Genesis, revision-history)
		for _, r := range []int64{oldest, (oldest + revision) / 2, revision} {
			page, err := tl.List(ctx, "", storage.ListOptions{Revision: r})
			if got := fmt.Sprint(page.Records); err != nil || got != states[r] {
				t.Fatalf("at %d, List at %d = %s, %v; want %s", revision, r, got, err, states[r])
			}
			follow(t, tl, r, revision)
		}
		if oldest > timeline.Genesis {
			if _, err := tl.Watch(ctx, "", oldest-1); !errors.Is(err, storage.ErrCompacted) {
				t.Fatalf("at %d, Watch after %d: %v", revision, oldest-1, err)
			}
		}
	}
}

// follow watches from one revision up to another.
func follow(t *testing.T, tl *timeline.Timeline, after, last int64) {
	t.Helper()
	stream, err := tl.Watch(t.Context(), "", after)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	for position := after; position < last; {
		events, err := stream.Next(t.Context())
		if err != nil {
			t.Fatalf("at %d, Next after %d: %v", last, position, err)
		}
		for _, e := range events {
			if position++; e.Revision != position {
				t.Fatalf("at %d, revision %d comes after %d", last, e.Revision, position-1)
			}
		}
	}
}

// A draft decides on top of itself, and is visible only after its commit.
func TestDraft(t *testing.T) {
	ctx := t.Context()
	tl := timeline.New(timeline.Limits{})
	draft := tl.Draft()
	for _, c := range []struct {
		timeline.Write
		revision int64
		err      error
	}{
		{timeline.Write{Verb: timeline.Create, Key: "a"}, 2, nil},
		{timeline.Write{Verb: timeline.Create, Key: "a"}, 0, storage.ErrExists},
		{timeline.Write{Verb: timeline.Update, Key: "a", Expected: 1}, 0, storage.ErrConflict},
		{timeline.Write{Verb: timeline.Update, Key: "a", Expected: 2}, 3, nil},
		{timeline.Write{Verb: timeline.Delete, Key: "a", Expected: 3}, 4, nil},
		{timeline.Write{Verb: timeline.Delete, Key: "a", Expected: 3}, 0, storage.ErrNotFound},
		{timeline.Write{Verb: timeline.Create, Key: "a", Value: []byte("x")}, 5, nil},
	} {
		if revision, err := draft.Add(c.Write); revision != c.revision || !errors.Is(err, c.err) {
			t.Errorf("Add(%+v) = %d, %v; want %d, %v", c.Write, revision, err, c.revision, c.err)
		}
	}
	if _, err := tl.Get(ctx, "a"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("Get before the commit: %v", err)
	}
	tl.Commit(draft)
	if record, err := tl.Get(ctx, "a"); err != nil || record.Revision != 5 || string(record.Value) != "x" {
		t.Errorf("Get after the commit = %+v, %v", record, err)
	}
	follow(t, tl, timeline.Genesis, 5)
}
