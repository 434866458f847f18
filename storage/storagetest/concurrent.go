package storagetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/keelson-dev/keelson/storage"
)

// call is what one client did and saw, and between which revisions.
type call struct {
	what          string
	event         storage.Event // of a write
	expected      int64
	create        bool
	key, prefix   string
	record        storage.Record
	page          storage.Page
	options       storage.ListOptions
	changes       []storage.Event
	after, upTo   int64 // of a watch
	before, until int64 // the store's revision around the call
	err           error
}

// client makes random calls and records them.
type client struct {
	store  storage.Store
	random *rand.Rand
	name   int
	known  map[string]int64 // revision by key
	diary  []call
}

// testConcurrentModel runs clients on a few keys and then checks every answer against the model derived from the whole
// history.
func testConcurrentModel(s *suite) {
	const clients, calls = 4, 90 // about half of them writes: within any history
	for seed := range uint64(6) {
		one := s
		if seed > 0 {
			one = s.open()
		}
		start := one.revision()
		ctx, cancel := s.patient()
		diaries := make([][]call, clients)
		var wg sync.WaitGroup
		for n := range clients {
			c := &client{store: one.store, random: rand.New(rand.NewPCG(seed, uint64(n))), name: n, known: map[string]int64{}}
			wg.Go(func() {
				for range calls {
					if err := c.call(ctx, start); err != nil {
						s.Errorf("seed %d: %v", seed, err)
						break
					}
				}
				diaries[n] = c.diary
			})
		}
		wg.Wait()
		cancel()
		if s.Failed() {
			s.FailNow()
		}
		one.judge(start, diaries)
		if s.Failed() {
			s.Fatalf("the random calls were those of seed %d", seed)
		}
	}
}

// call makes one call. It returns an error for an answer that is wrong under any history.
func (c *client) call(ctx context.Context, start int64) error {
	before, err := c.store.Revision(ctx)
	if err != nil {
		return err
	}
	made := call{before: before, key: fmt.Sprintf("%c/%d", 'a'+c.random.IntN(2), c.random.IntN(3))}
	made.prefix = made.key[:c.random.IntN(len(made.key)+1)]
	switch c.random.IntN(6) {
	case 0:
		made.what = "Get"
		if made.record, made.err = c.store.Get(ctx, made.key); made.err == nil {
			c.known[made.key] = made.record.Revision
		}
	case 1:
		made.what = "List"
		made.options = storage.ListOptions{Limit: c.random.IntN(4), After: []string{"", "a/1"}[c.random.IntN(2)]}
		if c.random.IntN(2) == 0 {
			made.options.Revision = start + c.random.Int64N(before-start+1)
		}
		made.page, made.err = c.store.List(ctx, made.prefix, made.options)
	case 2:
		made.what = "Watch"
		made.after, made.upTo = start+c.random.Int64N(before-start+1), before
		made.changes, made.err = readUntil(ctx, c.store, made.prefix, made.after, made.upTo)
	default:
		c.write(ctx, &made)
	}
	switch {
	case made.err == nil:
	case made.what != "List" && made.what != "Watch" && (errors.Is(made.err, storage.ErrNotFound) || errors.Is(made.err, storage.ErrConflict) || errors.Is(made.err, storage.ErrExists)):
	default:
		return fmt.Errorf("%s: %w", made.what, made.err)
	}
	if made.until, err = c.store.Revision(ctx); err == nil {
		c.diary = append(c.diary, made)
	}
	return err
}

func (c *client) write(ctx context.Context, made *call) {
	made.expected = c.known[made.key]
	made.event = storage.Event{Type: storage.Put, Key: made.key, Value: fmt.Appendf(nil, "client %d, call %d", c.name, len(c.diary))}
	var revision int64
	switch verb := c.random.IntN(5); {
	case verb == 0 || made.expected == 0:
		made.what, made.create = "Create", true
		revision, made.err = c.store.Create(ctx, made.key, made.event.Value)
	case verb == 1:
		made.what, made.event.Type, made.event.Value = "Delete", storage.Delete, nil
		revision, made.err = c.store.Delete(ctx, made.key, made.expected)
	default:
		made.what = "Update"
		revision, made.err = c.store.Update(ctx, made.key, made.event.Value, made.expected)
	}
	made.event.Revision = revision
	switch {
	case made.err == nil && made.event.Type == storage.Put:
		c.known[made.key] = revision
	case made.err == nil || errors.Is(made.err, storage.ErrNotFound):
		delete(c.known, made.key)
	case made.expected != 0:
		// Another client was first: read the record before the next attempt.
		if record, err := c.store.Get(ctx, made.key); err == nil {
			c.known[made.key] = record.Revision
		}
	default:
		c.known[made.key] = -1 // a record exists; expect a wrong revision until a Get
	}
}

// readUntil watches from one revision until the stream has reached another.
func readUntil(ctx context.Context, store storage.Watcher, prefix string, after, upTo int64) ([]storage.Event, error) {
	stream, err := store.Watch(ctx, prefix, after)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	var seen []storage.Event
	for position := after; position < upTo; {
		events, err := stream.Next(ctx)
		if err != nil {
			return seen, err
		}
		for _, e := range events {
			position = max(position, e.Revision)
			if e.Type != storage.Progress && e.Revision <= upTo {
				seen = append(seen, e)
			}
		}
	}
	return seen, nil
}

// judge compares what clients saw with what happened.
func (s *suite) judge(start int64, diaries [][]call) {
	m := newModel(start)
	writes := map[int64]storage.Event{}
	for _, e := range s.until(s.watch("", start), s.revision()) {
		m.write(e.Type, e.Key, e.Value, e.Revision)
		s.wantEvents([]storage.Event{e}, m.events[len(m.events)-1])
		writes[e.Revision] = e
	}
	for n, diary := range diaries {
		for _, made := range diary {
			if wrong := made.judge(m); wrong != "" {
				s.Errorf("client %d, between revisions %d and %d: %s of %q: %s", n, made.before, made.until, made.what, made.key, wrong)
			}
			if made.event.Type != 0 && made.err == nil {
				if _, there := writes[made.event.Revision]; !there {
					s.Errorf("client %d: %s of %q got revision %d, which no stream tells, or which another write has", n, made.what, made.key, made.event.Revision)
				}
				delete(writes, made.event.Revision)
			}
		}
	}
	for _, e := range writes {
		s.Errorf("a stream tells of a change that nobody made:\n%s", show([]storage.Event{e}))
	}
}

// judge says what is wrong with an answer, if anything.
func (c call) judge(m *model) string {
	switch c.what {
	case "List":
		want := m.list(c.prefix, c.page.Revision, c.options)
		switch {
		case c.options.Revision == 0 && (c.page.Revision < c.before || c.page.Revision > c.until):
			return fmt.Sprintf("it is at revision %d", c.page.Revision)
		case c.options.Revision != 0 && c.page.Revision != c.options.Revision:
			return fmt.Sprintf("asked for revision %d, it is at %d", c.options.Revision, c.page.Revision)
		case !samePages(c.page.Records, want.Records) || c.page.More != want.More:
			return fmt.Sprintf("(%q, %+v) is %+v, want %+v", c.prefix, c.options, c.page, want)
		}
		return ""
	case "Watch":
		var want []storage.Event
		for _, e := range m.after(c.prefix, c.after) {
			if e.Revision <= c.upTo {
				want = append(want, e)
			}
		}
		if !sameEvents(c.changes, want) {
			return fmt.Sprintf("(%q) from %d to %d tells\n%s, want\n%s", c.prefix, c.after, c.upTo, show(c.changes), show(want))
		}
		return ""
	}
	if c.err == nil && c.what != "Get" {
		return c.judgeWrite(m)
	}
	for i, revision := range m.revisions { // the answer must match some state during the call
		last := i+1 == len(m.revisions) || m.revisions[i+1] > c.before
		if record, there := m.states[revision][c.key]; last && revision <= c.until && c.explained(record, there) {
			return ""
		}
	}
	return fmt.Sprintf("no state in between explains %s, %v", showRecord(c.record), c.err)
}

// explained reports whether a record, or its absence, explains a read's answer or a refusal.
func (c call) explained(record storage.Record, there bool) bool {
	switch {
	case c.err == nil:
		return there && sameRecord(c.record, record)
	case errors.Is(c.err, storage.ErrNotFound):
		return !there && !c.create
	case errors.Is(c.err, storage.ErrExists):
		return there && c.create
	}
	return there && !c.create && c.what != "Get" && record.Revision != c.expected
}

func (c call) judgeWrite(m *model) string {
	at := c.event.Revision
	if at <= c.before || at > c.until {
		return fmt.Sprintf("it got revision %d", at)
	}
	for i, revision := range m.revisions {
		if revision != at {
			continue
		}
		before, there := m.states[m.revisions[i-1]][c.key]
		after, lives := m.states[at][c.key]
		switch {
		case there == c.create || there && before.Revision != c.expected:
			return fmt.Sprintf("it expected revision %d and replaced %d", c.expected, before.Revision)
		case lives != (c.event.Type == storage.Put) || lives && !sameRecord(after, storage.Record{Key: c.key, Value: c.event.Value, Revision: at}):
			return fmt.Sprintf("it left %s", showRecord(after))
		}
		return ""
	}
	return "" // suite.judge reports that it never came
}
