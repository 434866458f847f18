package linear

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

// expired is how a session ends if its revision is gone.
const expired = "410"

// watcher follows one selection: it breaks off now and then, and resumes at the last revision, at an older one, or
// anew.
type watcher struct {
	number    int
	selection Selection
	api       api
	record    *recorder
	random    *rand.Rand
	// patience is the average number of events after which it breaks off; 0 is never.
	patience int

	mu       sync.Mutex
	moved    chan struct{} // closed at each step
	at       int64         // everything up to it was delivered
	since    []int64       // revisions to resume from
	fresh    bool          // there is none to resume from
	problems []string
}

func newWatcher(number int, s Selection, a api, record *recorder, random *rand.Rand) *watcher {
	return &watcher{number: number, selection: s, api: a, record: record, random: random, moved: make(chan struct{}), fresh: true}
}

// run watches until the context ends.
func (w *watcher) run(ctx context.Context, servers []http.RoundTripper) {
	for ctx.Err() == nil {
		server := w.random.IntN(len(servers))
		s := w.begin()
		s.Server = server
		if s.Start == Resume && s.From == 0 {
			if s.From = w.list(ctx, servers[server], server); s.From == 0 {
				rest(ctx, w.random)
				continue
			}
		}
		w.record.session(s)
		quiet := w.follow(ctx, servers[server], s)
		w.end(s)
		if quiet {
			rest(ctx, w.random)
		}
	}
}

// rest delays the next request after a refusal.
func rest(ctx context.Context, random *rand.Rand) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Duration(1+random.IntN(20)) * time.Millisecond):
	}
}

// begin chooses where to start; a Resume from 0 is one from a list.
func (w *watcher) begin() *Session {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &Session{Watcher: w.number, Selection: w.selection, Start: Resume, From: w.at}
	if !w.fresh {
		switch n := w.random.IntN(20); {
		case w.patience == 0 || n < 12:
			return s
		case n < 16:
			s.From = w.since[w.random.IntN(len(w.since))]
			return s
		}
	}
	starts := []Start{Resume, Initial, Initial, Newest, AnyAge}
	s.Start, s.From = starts[w.random.IntN(len(starts))], 0
	if w.patience == 0 {
		s.Start = Resume
	}
	if s.Start == Initial && w.random.IntN(2) == 0 {
		s.From = w.at
	}
	return s
}

// list lists first, like informers.
func (w *watcher) list(ctx context.Context, server http.RoundTripper, number int) int64 {
	op := &Op{Client: -1 - w.number, Server: number, Verb: List, Mode: Consistent}
	w.record.call(op)
	w.record.answer(op, w.api.do(ctx, server, op))
	switch op.Outcome {
	case OK:
		w.step(op.Revision)
	case Refused:
		w.problem(op.String())
	}
	return op.Revision
}

func (w *watcher) problem(p string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problems = append(w.problems, p)
}

// end derives from a session where to resume.
func (w *watcher) end(s *Session) {
	w.mu.Lock()
	defer w.mu.Unlock()
	reached := s.reached()
	switch {
	case s.End == expired && s.From == w.at:
		w.fresh, w.since = true, nil
	case s.Start == Initial && s.live() == len(s.Events) && (len(s.Events) == 0 || !s.Events[len(s.Events)-1].InitialEnd):
		// it broke off before the state was complete: nothing to resume from
	case reached > 0 && s.End != expired:
		w.fresh = false
		w.since = append(w.since, reached)
	}
	if len(w.since) > 50 {
		w.since = w.since[25:]
	}
}

// step records how far the watcher has come.
func (w *watcher) step(revision int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = max(w.at, revision)
	close(w.moved)
	w.moved = make(chan struct{})
}

// reach waits until the watcher has received everything up to a revision.
func (w *watcher) reach(ctx context.Context, revision int64) error {
	for {
		w.mu.Lock()
		at, moved := w.at, w.moved
		w.mu.Unlock()
		if at >= revision {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("%w: watch %d of %+v stays at revision %d and never tells %d: %w",
				ErrViolated, w.number, w.selection, at, revision, ctx.Err())
		}
	}
}

func (s *Session) query() url.Values {
	q := url.Values{"watch": {"1"}, "allowWatchBookmarks": {"true"}, "timeoutSeconds": {"3600"}}
	if label := s.Selection.Label; label != "" && label[0] == '!' {
		q.Set("labelSelector", "l!="+label[1:])
	} else if label != "" {
		q.Set("labelSelector", "l="+label)
	}
	if s.Selection.Name != "" {
		q.Set("fieldSelector", "metadata.name="+s.Selection.Name)
	}
	switch s.Start {
	case Resume:
		q.Set("resourceVersion", strconv.FormatInt(s.From, 10))
	case Initial:
		q.Set("sendInitialEvents", "true")
		q.Set("resourceVersionMatch", "NotOlderThan")
		if s.From > 0 {
			q.Set("resourceVersion", strconv.FormatInt(s.From, 10))
		}
	case AnyAge:
		q.Set("resourceVersion", "0")
	}
	return q
}

// follow reads the events of one session; quiet reports that there were none.
func (w *watcher) follow(ctx context.Context, server http.RoundTripper, s *Session) (quiet bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.api.url("", s.query()), nil)
	if err != nil {
		s.End = err.Error()
		return true
	}
	resp, err := server.RoundTrip(r)
	if err != nil {
		s.End = err.Error()
		return true
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		w.refused(s, resp)
		return true
	}
	most := -1
	if w.patience > 0 {
		most = 1 + w.random.IntN(2*w.patience)
	}
	for d := json.NewDecoder(resp.Body); len(s.Events) != most; {
		var e struct {
			Type   string `json:"type"`
			Object wire   `json:"object"`
		}
		if err := d.Decode(&e); err != nil {
			s.End = err.Error()
			return len(s.Events) == 0
		}
		if e.Type == failed {
			w.ended(s, e.Object.Code, e.Object.Message)
			return true
		}
		event := Event{Type: e.Type, Object: e.Object.object(), InitialEnd: e.Object.Metadata.Annotations["k8s.io/initial-events-end"] == "true"}
		if event.bookmark() {
			event.Object = Object{Revision: event.Object.Revision}
		}
		s.Events = append(s.Events, event)
		if s.Start != Initial || event.InitialEnd || s.live() < len(s.Events) {
			w.step(event.Object.Revision)
		}
	}
	s.End = "broken off"
	return false
}

// refused handles an answer that is not a stream.
func (w *watcher) refused(s *Session, resp *http.Response) {
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		s.End = err.Error()
		return
	}
	var status wire
	if err := json.Unmarshal(data, &status); err != nil {
		status.Message = string(data)
	}
	w.ended(s, resp.StatusCode, status.Message)
}

// ended handles the error with which a server ends a watch. Legitimate ones are that a revision is gone, or that the
// server is unavailable.
func (w *watcher) ended(s *Session, code int, message string) {
	s.End = fmt.Sprintf("%d %s", code, message)
	switch {
	case code == http.StatusGone:
		s.End = expired
	case code < 500 && code != http.StatusTooManyRequests:
		w.problem(fmt.Sprintf("%s fails: %s", s, s.End))
	}
}
