package linear

import (
	"fmt"
	"slices"
	"strings"
)

// The types of watch events.
const (
	added    = "ADDED"
	modified = "MODIFIED"
	deleted  = "DELETED"
	bookmark = "BOOKMARK"
	failed   = "ERROR"
)

// Selection is a label selector on the label l, or a field selector on the name. The zero value selects all.
type Selection struct {
	Label string // "x" is l=x, "!x" is l!=x
	Name  string
}

func (s Selection) all() bool { return s == Selection{} }

func (s Selection) matches(o Object) bool {
	label := true
	if not, ok := strings.CutPrefix(s.Label, "!"); ok {
		label = o.Label != not
	} else if s.Label != "" {
		label = o.Label == s.Label
	}
	return label && (s.Name == "" || o.Key == s.Name)
}

// Start is where a watch begins.
type Start string

// The starts. All but Resume begin with the current state, as ADDED events.
const (
	Resume  Start = "resume"                // after a revision
	Initial Start = "sendInitialEvents"     // with a bookmark after the state
	Newest  Start = "no resourceVersion"    // the newest state
	AnyAge  Start = "resourceVersion=\"0\"" // a state of any age
)

// Event is an event of a watch.
type Event struct {
	Type       string
	Object     Object
	InitialEnd bool
}

func (e Event) bookmark() bool { return e.Type == bookmark }

// Session is one watch from its beginning to its end.
type Session struct {
	Watcher   int
	Server    int
	Selection Selection
	Start     Start
	From      int64
	Call      int64
	Events    []Event
	End       string // how it ended
}

// String is for people.
func (s *Session) String() string {
	return fmt.Sprintf("watch %d at server %d of %+v (%s %d, called %d)", s.Watcher, s.Server, s.Selection, s.Start, s.From, s.Call)
}

// live is the index of the first event that is certainly a change after the watch began.
func (s *Session) live() int {
	switch s.Start {
	case Resume:
		return 0
	case Initial:
		if i := slices.IndexFunc(s.Events, func(e Event) bool { return e.InitialEnd }); i >= 0 {
			return i + 1
		}
	}
	return len(s.Events)
}

// reached is the revision up to which the watch has delivered everything.
func (s *Session) reached() int64 {
	var revision int64
	for _, e := range s.Events {
		revision = max(revision, e.Object.Revision)
	}
	return max(revision, s.From)
}

// covers returns the interval that the watch delivered completely, by itself.
func (s *Session) covers() (interval, bool) {
	switch live := s.live(); {
	case s.Start == Resume:
		return interval{s.From, s.reached()}, true
	case s.Start == Initial && live > 0 && live <= len(s.Events) && s.Events[live-1].InitialEnd:
		return interval{s.Events[live-1].Object.Revision, s.reached()}, true
	default:
		return interval{}, false
	}
}

// check checks a watch against the log. known is false if gaps in the log prevent a complete check; what must hold for
// every watch is checked in any case. least is the highest revision of the writes acknowledged before the watch began.
func (s *Session) check(l *log, least int64) (known bool, problems []string) {
	problem := func(format string, args ...any) {
		problems = append(problems, s.String()+": "+fmt.Sprintf(format, args...))
	}
	if p := s.ordered(); p != "" {
		problem("%s", p)
	}
	switch s.Start {
	case Resume:
		return s.follows(l, 0, s.From, problem), problems
	case Initial:
		end := s.live()
		if end == len(s.Events) && (end == 0 || !s.Events[end-1].InitialEnd) {
			return false, problems // it broke off
		}
		at := s.Events[end-1].Object.Revision
		if s.From > at || s.From == 0 && at < least {
			problem("begins at %d, but writes up to %d were acknowledged, or asked for is %d", at, least, s.From)
		}
		if l.known(at, at) {
			s.begins(l, end-1, at, problem)
		}
		return s.follows(l, end, at, problem), problems
	default:
		return s.split(l, least, problem), problems
	}
}

// ordered checks what needs no log: revisions rise, except in the state at the beginning, and bookmarks overtake
// nothing.
func (s *Session) ordered() string {
	last := s.From
	if s.Start != Resume {
		last = 0
	}
	begun := s.Start == Resume
	for i, e := range s.Events {
		switch revision := e.Object.Revision; {
		case e.bookmark():
			if revision < last {
				return fmt.Sprintf("event %d: a bookmark at %d comes after %d", i, revision, last)
			}
			last, begun = revision, true
		case !begun && e.Type == added: // the state at the beginning is in key order
			last = max(last, revision)
		case revision <= last:
			return fmt.Sprintf("event %d: %s %v comes after %d", i, e.Type, e.Object, last)
		default:
			last, begun = revision, true
		}
	}
	return ""
}

// begins compares the first n events with the state at a revision.
func (s *Session) begins(l *log, n int, at int64, problem func(string, ...any)) bool {
	want := l.all(at, s.Selection)
	for i := range max(n, len(want)) {
		switch {
		case i >= n:
			problem("the state at %d has %v, which is not told", at, want[i])
		case i >= len(want):
			problem("tells %v, which is not in the state at %d", s.Events[i].Object, at)
		case s.Events[i].Type != added || s.Events[i].Object != want[i]:
			problem("tells %s %v, the state at %d has %v", s.Events[i].Type, s.Events[i].Object, at, want[i])
		default:
			continue
		}
		return false
	}
	return true
}

// follows compares the events from the nth on with the log after a revision.
func (s *Session) follows(l *log, n int, from int64, problem func(string, ...any)) bool {
	to := from
	var got []Event
	for _, e := range s.Events[min(n, len(s.Events)):] {
		to = max(to, e.Object.Revision)
		if !e.bookmark() {
			got = append(got, e)
		}
	}
	known := l.known(from, to)
	if !known && !(s.Selection.all() && l.whole(from, to)) {
		return false // what a selector shows of a change depends on the object's previous state
	}
	want := l.events(s.Selection, from, to)
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got) || i < len(want) && got[i].Object.Revision > want[i].Object.Revision:
			problem("gap: %s %v is not told", want[i].Type, want[i].Object)
		case i >= len(want) || got[i].Object.Revision < want[i].Object.Revision:
			problem("tells %s %v, which does not belong there", got[i].Type, got[i].Object)
		case got[i] != want[i] && known:
			problem("tells %s %v instead of %s %v", got[i].Type, got[i].Object, want[i].Type, want[i].Object)
		case got[i].Object != want[i].Object:
			problem("tells %v instead of %v", got[i].Object, want[i].Object)
		default:
			continue
		}
		return true
	}
	return true
}

// split looks for a revision at which a watch without a bookmark after its first state can have begun.
func (s *Session) split(l *log, least int64, problem func(string, ...any)) bool {
	if len(s.Events) == 0 {
		return false
	}
	gaps := false
	if s.Start == AnyAge {
		least = 0
	}
	quiet := func(string, ...any) {}
	candidates := []int64{l.begin}
	for _, e := range l.entries {
		candidates = append(candidates, e.object.Revision)
	}
	for i, at := range candidates {
		if i+1 < len(candidates) && candidates[i+1] <= least {
			continue // it would not show what was acknowledged
		}
		if !l.known(at, max(at, s.reached())) {
			gaps = true
			continue
		}
		all := l.all(at, s.Selection)
		n := len(all)
		if n > len(s.Events) && slices.EqualFunc(s.Events, all[:len(s.Events)], func(e Event, o Object) bool { return e.Object == o }) {
			return true // it broke off before the state was whole
		}
		if n > len(s.Events) || !s.begins(l, n, at, quiet) {
			continue
		}
		ok := true
		s.follows(l, n, at, func(string, ...any) { ok = false })
		if ok {
			return true
		}
	}
	if gaps {
		return false
	}
	problem("there is no revision of which these are the state and the changes that follow: %v", s.Events)
	return true
}
