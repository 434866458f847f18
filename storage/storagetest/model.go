package storagetest

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/keelson-dev/keelson/storage"
)

// model is the contract in its plainest form: all states and all events.
type model struct {
	states    map[int64]map[string]storage.Record // by revision
	revisions []int64                             // of the states, ascending
	events    []storage.Event
}

func newModel(revision int64) *model {
	return &model{states: map[int64]map[string]storage.Record{revision: {}}, revisions: []int64{revision}}
}

func (m *model) newest() map[string]storage.Record { return m.states[m.revisions[len(m.revisions)-1]] }

// at returns the state at a revision, which need not be a change's.
func (m *model) at(revision int64) map[string]storage.Record {
	i, found := slices.BinarySearch(m.revisions, revision)
	if !found {
		i--
	}
	if i < 0 {
		return nil
	}
	return m.states[m.revisions[i]]
}

func (m *model) write(event storage.EventType, key string, value []byte, revision int64) {
	state := maps.Clone(m.newest())
	change := storage.Event{Type: event, Key: key, Value: value, Revision: revision}
	if before, there := state[key]; there {
		change.Prev = before.Value
	}
	if event == storage.Put {
		state[key] = storage.Record{Key: key, Value: value, Revision: revision}
	} else {
		delete(state, key)
	}
	m.states[revision] = state
	m.revisions = append(m.revisions, revision)
	m.events = append(m.events, change)
}

func (m *model) list(prefix string, revision int64, o storage.ListOptions) storage.Page {
	page := storage.Page{Revision: revision}
	state := m.at(revision)
	for _, key := range slices.Sorted(maps.Keys(state)) {
		switch {
		case !strings.HasPrefix(key, prefix) || o.After != "" && key <= o.After:
		case o.Limit > 0 && len(page.Records) == o.Limit:
			page.More = true
		default:
			page.Records = append(page.Records, state[key])
		}
	}
	return page
}

func (m *model) after(prefix string, revision int64) []storage.Event {
	var events []storage.Event
	for _, e := range m.events {
		if e.Revision > revision && strings.HasPrefix(e.Key, prefix) {
			events = append(events, e)
		}
	}
	return events
}

// inOrder returns the records of a state as a list does.
func inOrder(state map[string]storage.Record) []storage.Record {
	var records []storage.Record
	for _, key := range slices.Sorted(maps.Keys(state)) {
		records = append(records, state[key])
	}
	return records
}

// testModel compares random calls of one client with the model.
func testModel(s *suite) {
	for seed := range uint64(10) {
		one := s
		if seed > 0 {
			one = s.open()
		}
		run := &modelRun{suite: one, random: rand.New(rand.NewPCG(seed, 0))}
		run.model = newModel(run.revision())
		for range 180 { // number of changes, within any history
			run.step()
		}
		for _, w := range run.watches {
			run.drain(w)
		}
		if s.Failed() {
			s.Fatalf("the random calls were those of seed %d", seed)
		}
	}
}

type modelRun struct {
	*suite
	model   *model
	random  *rand.Rand
	watches []*modelWatch
}

type modelWatch struct {
	stream   *tracked
	prefix   string
	position int64
}

func (r *modelRun) step() {
	r.write()
	switch r.random.IntN(6) {
	case 0:
		r.checkGet()
	case 1, 2:
		r.checkList()
	case 3:
		prefix, after := r.prefix(), r.anyRevision()
		r.watches = append(r.watches, &modelWatch{r.watch(prefix, after), prefix, after})
	case 4:
		if len(r.watches) > 0 {
			r.drain(r.watches[r.random.IntN(len(r.watches))])
		}
	}
}

func (r *modelRun) key() string {
	return []string{"/a/", "/a", "/b/", "/ab/"}[r.random.IntN(4)] + fmt.Sprint(r.random.IntN(4))
}

func (r *modelRun) prefix() string {
	return []string{"", "/", "/a", "/a/", "/b/", "/ab/1", "/none"}[r.random.IntN(7)]
}

func (r *modelRun) anyRevision() int64 {
	return r.model.revisions[r.random.IntN(len(r.model.revisions))]
}

// write makes one random write, which may be wrong in what it expects.
func (r *modelRun) write() {
	key := r.key()
	before, there := r.model.newest()[key]
	expected := before.Revision
	if r.random.IntN(8) == 0 {
		expected = r.anyRevision()
	}
	value := fmt.Appendf(nil, "%d", r.random.IntN(1000))
	event := storage.Put
	var revision int64
	var err, want error
	switch verb := r.random.IntN(5); {
	case verb < 2 && !there || verb == 0:
		revision, err = r.store.Create(r.Context(), key, value)
		if there {
			want = storage.ErrExists
		}
	default:
		if verb == 4 {
			event, value = storage.Delete, nil
			revision, err = r.store.Delete(r.Context(), key, expected)
		} else {
			revision, err = r.store.Update(r.Context(), key, value, expected)
		}
		if !there {
			want = storage.ErrNotFound
		} else if expected != before.Revision {
			want = storage.ErrConflict
		}
	}
	if want != nil || err != nil {
		if want == nil || !errors.Is(err, want) {
			r.Fatalf("write of %q: error %v, want %v", key, err, want)
		}
		return
	}
	if last := r.model.revisions[len(r.model.revisions)-1]; revision <= last {
		r.Fatalf("write of %q got revision %d after %d", key, revision, last)
	}
	r.model.write(event, key, value, revision)
}

func (r *modelRun) checkGet() {
	key := r.key()
	want, there := r.model.newest()[key]
	got, err := r.store.Get(r.Context(), key)
	if there && (err != nil || !sameRecord(got, want)) || !there && !errors.Is(err, storage.ErrNotFound) {
		r.Fatalf("Get(%q) = %s, %v; want %s, %v", key, showRecord(got), err, showRecord(want), there)
	}
}

func (r *modelRun) checkList() {
	prefix := r.prefix()
	options := storage.ListOptions{Limit: r.random.IntN(5)}
	revision := r.model.revisions[len(r.model.revisions)-1]
	if r.random.IntN(3) > 0 {
		revision = r.anyRevision()
		options.Revision = revision
	}
	if r.random.IntN(3) == 0 {
		options.After = r.key()
	}
	want := r.model.list(prefix, revision, options)
	got := r.list(prefix, options)
	if got.Revision != want.Revision || got.More != want.More || !samePages(got.Records, want.Records) {
		r.Fatalf("List(%q, %+v) =\n%+v, want\n%+v", prefix, options, got, want)
	}
}

// drain reads what a watch must deliver and compares it with the model.
func (r *modelRun) drain(w *modelWatch) {
	want := r.model.after(w.prefix, w.position)
	w.position = r.revision() // streams need only reach a revision that was asked for
	r.wantEvents(r.until(w.stream, w.position), want...)
}
