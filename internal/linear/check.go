package linear

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// ErrViolated is what Check returns, wrapped in a *Violation, when a promise was broken.
var ErrViolated = errors.New("a promise was broken")

// Violation describes how. Save writes what is needed to understand it.
type Violation struct {
	Problems []string

	ops      []*Op
	sessions []*Session
	verdicts []verdict
}

// Error describes the first problems.
func (v *Violation) Error() string {
	const most = 10
	shown := v.Problems[:min(most, len(v.Problems))]
	return fmt.Sprintf("%v: %d problems\n%s", ErrViolated, len(v.Problems), strings.Join(shown, "\n"))
}

// Unwrap returns ErrViolated.
func (v *Violation) Unwrap() error { return ErrViolated }

// Save writes the history, the watches and porcupine's pictures into a directory.
func (v *Violation) Save(dir string) error {
	errs := []error{os.WriteFile(filepath.Join(dir, "problems.txt"), []byte(strings.Join(v.Problems, "\n")+"\n"), 0o644)}
	for name, what := range map[string]any{"operations.json": v.ops, "watches.json": v.sessions} {
		data, err := json.MarshalIndent(what, "", " ")
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o644)
		}
		errs = append(errs, err)
	}
	for _, verdict := range v.verdicts {
		if verdict.result != porcupine.Ok {
			errs = append(errs, porcupine.VisualizePath(verdict.model, verdict.info, filepath.Join(dir, verdict.what+".html")))
		}
	}
	return errors.Join(errs...)
}

// Report counts what a history consisted of.
type Report struct {
	Histories    int // given to porcupine, each as a whole and key by key
	Operations   int
	Acknowledged int // writes
	Refused      int // operations answered 404, 409 or 410
	Unknown      int // writes without an answer
	Landed       int // of these, done nevertheless
	Lists        int // consistent ones, including paged ones
	OldReads     int // lists that may be old, or are at a revision, checked against the log
	Watches      int
	Resumed      int
	Expired      int // watches that got 410
	Events       int
	Bookmarks    int
	Unjudged     int // watches and old reads that could not be checked, because of gaps in the log
}

// Add adds another report.
func (r *Report) Add(o Report) {
	for _, p := range []struct {
		to   *int
		more int
	}{
		{&r.Histories, o.Histories}, {&r.Operations, o.Operations}, {&r.Acknowledged, o.Acknowledged}, {&r.Refused, o.Refused},
		{&r.Unknown, o.Unknown}, {&r.Landed, o.Landed}, {&r.Lists, o.Lists}, {&r.OldReads, o.OldReads}, {&r.Watches, o.Watches},
		{&r.Resumed, o.Resumed}, {&r.Expired, o.Expired}, {&r.Events, o.Events}, {&r.Bookmarks, o.Bookmarks}, {&r.Unjudged, o.Unjudged},
	} {
		*p.to += p.more
	}
}

// patience bounds porcupine's search of one history.
const patience = 2 * time.Minute

// check checks a whole record; begin is a revision at which the namespace was empty.
func check(begin int64, ops []*Op, sessions []*Session) (Report, error) {
	v := &Violation{ops: ops, sessions: sessions}
	r := count(ops, sessions)
	l, problems := assemble(begin, ops, sessions)
	v.Problems = append(problems, l.writes(ops)...)
	for _, op := range ops {
		if op.Outcome == Refused {
			v.Problems = append(v.Problems, "an answer that it cannot have: "+op.String())
		}
		if op.Outcome == Unknown && op.Revision > 0 {
			r.Landed++
		}
		if op.Verb != List || op.Outcome != OK || op.Mode == Consistent {
			continue
		}
		known, p := l.read(op)
		if p != "" {
			v.Problems = append(v.Problems, p)
		}
		if known {
			r.OldReads++
		} else {
			r.Unjudged++
		}
	}
	for _, s := range sessions {
		known, problems := s.check(l, acknowledged(ops, s.Call))
		if !known && len(s.Events) > 0 {
			r.Unjudged++
		}
		v.Problems = append(v.Problems, problems...)
	}
	verdicts, err := linearize(l.settle(ops), patience)
	if err != nil {
		return r, err
	}
	v.verdicts = verdicts
	for _, verdict := range verdicts {
		switch verdict.result {
		case porcupine.Illegal:
			v.Problems = append(v.Problems, verdict.what+": not linearizable: "+verdict.stuck())
		case porcupine.Unknown:
			v.Problems = append(v.Problems, fmt.Sprintf("%s: not decided within %v", verdict.what, patience))
		}
	}
	if len(v.Problems) > 0 {
		return r, v
	}
	return r, nil
}

func count(ops []*Op, sessions []*Session) Report {
	r := Report{Histories: 1, Operations: len(ops), Watches: len(sessions)}
	for _, op := range ops {
		write := op.Verb != Get && op.Verb != List
		switch {
		case op.Outcome == OK && write:
			r.Acknowledged++
		case op.Outcome == Unknown && write:
			r.Unknown++
		case op.Outcome == OK && op.Verb == List && (op.Mode == Consistent || op.Mode == Paged):
			r.Lists++
		case op.Outcome != OK && op.Outcome != Unknown:
			r.Refused++
		}
	}
	for _, s := range sessions {
		if s.Start == Resume {
			r.Resumed++
		}
		if s.End == expired {
			r.Expired++
		}
		for _, e := range s.Events {
			if e.bookmark() {
				r.Bookmarks++
			} else {
				r.Events++
			}
		}
	}
	return r
}

// acknowledged returns the highest revision among the writes that were acknowledged before a tick.
func acknowledged(ops []*Op, before int64) int64 {
	var most int64
	for _, op := range ops {
		if op.Outcome == OK && op.Return < before {
			most = max(most, op.Object.Revision)
		}
	}
	return most
}

// read checks a list with a revision against the log.
func (l *log) read(op *Op) (known bool, problem string) {
	if op.Mode == NotOlder && op.Revision < op.Ask || op.Mode == Exact && op.Revision != op.Ask {
		return true, fmt.Sprintf("a list at the wrong revision %d: %s", op.Revision, op)
	}
	if !l.known(op.Revision, op.Revision) {
		return false, ""
	}
	if want := l.all(op.Revision, Selection{}); !slices.Equal(want, op.Items) {
		return true, fmt.Sprintf("a list that shows not what there was at %d, %v: %s", op.Revision, want, op)
	}
	return true, ""
}

// settle resolves writes without an answer from the log: those in it were done and, if it is complete, others were not.
// The rest stay open to the end.
func (l *log) settle(ops []*Op) []*Op {
	complete := l.complete()
	var settled []*Op
	for _, op := range ops {
		switch {
		case op.Outcome != Unknown || op.Verb == Get || op.Verb == List:
		case op.Verb == Delete:
			if complete {
				continue
			}
		case op.Revision > 0:
			done := *op
			done.Outcome = OK
			op = &done
		case complete:
			continue
		}
		settled = append(settled, op)
	}
	if complete {
		settled = append(settled, l.ownerless(ops)...)
	}
	return settled
}

// ownerless returns a deletion for each one in the log that no acknowledged one explains. It is one of those without an
// answer, but it is unknown which, so its call time is that of the first candidate.
func (l *log) ownerless(ops []*Op) []*Op {
	owned := map[int64]bool{}
	for _, op := range ops {
		owned[op.Revision] = owned[op.Revision] || op.Verb == Delete && op.Outcome == OK
	}
	var all []*Op
	for _, e := range l.entries {
		if !e.deleted || owned[e.object.Revision] {
			continue
		}
		before, _ := l.at(e.object.Key, e.object.Revision-1)
		for _, op := range ops {
			if op.Verb == Delete && op.Outcome == Unknown && op.Key == e.object.Key && op.If.holds(before, false) {
				done := *op
				done.Outcome, done.Object, done.Revision, done.Return, done.If = OK, e.object, e.object.Revision, never, Condition{}
				all = append(all, &done)
				break
			}
		}
	}
	return all
}
