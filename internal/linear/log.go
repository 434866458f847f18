package linear

import (
	"cmp"
	"fmt"
	"slices"
)

// entry is one committed change. The object of a deletion is the last state with the deletion's revision.
type entry struct {
	object  Object
	deleted bool
	told    bool // reported by a watch
}

// log holds all changes that were reported to anybody, by revision.
type log struct {
	entries []entry // in order
	byKey   map[string][]entry
	covered []interval // reported completely by watches without a selector
	begin   int64      // the revision at which the namespace was empty
	anchors []int64    // revisions whose whole state is known: the begin, and those of lists
}

// interval is the revisions after from, up to and including to.
type interval struct{ from, to int64 }

// assemble builds the log from watches and answers. Disagreements are problems.
func assemble(begin int64, ops []*Op, sessions []*Session) (*log, []string) {
	known, problems := map[int64]entry{}, []string(nil)
	add := func(e entry, source string) {
		before, there := known[e.object.Revision]
		switch {
		case !there:
		case before.object != e.object || before.deleted != e.deleted:
			problems = append(problems, fmt.Sprintf("%s tells %v (deleted: %v) of a revision at which another told %v (deleted: %v)",
				source, e.object, e.deleted, before.object, before.deleted))
			return
		default:
			e.told = e.told || before.told
		}
		known[e.object.Revision] = e
	}
	l := &log{byKey: map[string][]entry{}, begin: begin}
	for _, s := range sessions {
		live := s.live()
		for i, e := range s.Events {
			gone := e.Type == deleted
			if e.bookmark() || gone && !s.Selection.all() {
				continue // with a selector it need not be a deletion
			}
			add(entry{object: e.Object, deleted: gone, told: i >= live}, s.String())
		}
		if s.Selection.all() {
			if i, ok := s.covers(); ok {
				l.covered = append(l.covered, i)
			}
		}
	}
	for _, op := range ops {
		if op.Outcome != OK {
			continue
		}
		if op.Verb != Delete && op.Verb != List {
			add(entry{object: op.Object}, op.String())
		}
		for _, o := range op.Items {
			add(entry{object: o}, op.String())
		}
	}
	for _, e := range known {
		l.entries = append(l.entries, e)
	}
	slices.SortFunc(l.entries, func(a, b entry) int { return cmp.Compare(a.object.Revision, b.object.Revision) })
	for _, e := range l.entries {
		l.byKey[e.object.Key] = append(l.byKey[e.object.Key], e)
	}
	l.covered = merge(l.covered)
	l.anchor(ops)
	return l, problems
}

// anchor derives unseen deletions from lists; in byKey they are at the revision of the list.
func (l *log) anchor(ops []*Op) {
	lists := slices.DeleteFunc(slices.Clone(ops), func(op *Op) bool { return op.Verb != List || !op.linearizable() })
	slices.SortFunc(lists, func(a, b *Op) int { return cmp.Compare(a.Revision, b.Revision) })
	l.anchors = []int64{l.begin}
	for _, op := range lists {
		at := op.Revision
		if at == l.anchors[len(l.anchors)-1] {
			continue
		}
		for key, entries := range l.byKey {
			o, there := l.at(key, at)
			if !there || op.item(key).Key != "" || l.whole(o.Revision, at) {
				continue
			}
			n, _ := slices.BinarySearchFunc(entries, at, func(e entry, r int64) int { return cmp.Compare(e.object.Revision, r) })
			o.Revision = at
			l.byKey[key] = slices.Insert(entries, n, entry{object: o, deleted: true})
		}
		l.anchors = append(l.anchors, at)
	}
}

// known reports whether the log has every change after from, up to and including to, and the state at from.
func (l *log) known(from, to int64) bool {
	return slices.ContainsFunc(l.anchors, func(a int64) bool { return a <= from && l.whole(a, to) })
}

// merge joins intervals that touch.
func merge(all []interval) []interval {
	slices.SortFunc(all, func(a, b interval) int { return cmp.Compare(a.from, b.from) })
	var merged []interval
	for _, i := range all {
		if n := len(merged); n > 0 && i.from <= merged[n-1].to {
			merged[n-1].to = max(merged[n-1].to, i.to)
		} else {
			merged = append(merged, i)
		}
	}
	return merged
}

// whole reports whether the log has every change after from, up to and including to.
func (l *log) whole(from, to int64) bool {
	return from == to || slices.ContainsFunc(l.covered, func(i interval) bool { return i.from <= from && to <= i.to })
}

// complete reports whether the log has every change.
func (l *log) complete() bool {
	return len(l.entries) == 0 || l.whole(l.begin, l.entries[len(l.entries)-1].object.Revision)
}

// at returns the state of a key at a revision, as far as it is in the log.
func (l *log) at(key string, revision int64) (Object, bool) {
	entries := l.byKey[key]
	n, found := slices.BinarySearchFunc(entries, revision, func(e entry, r int64) int { return cmp.Compare(e.object.Revision, r) })
	if !found {
		n--
	}
	if n < 0 || entries[n].deleted {
		return Object{}, false
	}
	return entries[n].object, true
}

// previous returns the revision of the change of a key before this one, or where the log begins.
func (l *log) previous(key string, revision int64) int64 {
	n, _ := slices.BinarySearchFunc(l.byKey[key], revision, func(e entry, r int64) int { return cmp.Compare(e.object.Revision, r) })
	if n == 0 {
		return l.begin
	}
	return l.byKey[key][n-1].object.Revision
}

// all returns the state at a revision through a selection, in key order.
func (l *log) all(revision int64, s Selection) []Object {
	var objects []Object
	for key := range l.byKey {
		if o, there := l.at(key, revision); there && s.matches(o) {
			objects = append(objects, o)
		}
	}
	slices.SortFunc(objects, func(a, b Object) int { return cmp.Compare(a.Key, b.Key) })
	return objects
}

// events returns what a watch with this selection must deliver after from, up to and including to.
func (l *log) events(s Selection, from, to int64) []Event {
	var events []Event
	first, _ := slices.BinarySearchFunc(l.entries, from+1, func(e entry, r int64) int { return cmp.Compare(e.object.Revision, r) })
	for _, e := range l.entries[first:] {
		o := e.object
		if o.Revision > to {
			break
		}
		before, was := l.at(o.Key, o.Revision-1)
		was = was && s.matches(before)
		switch is := !e.deleted && s.matches(o); {
		case is && was:
			events = append(events, Event{Type: modified, Object: o})
		case is:
			events = append(events, Event{Type: added, Object: o})
		case was && e.deleted:
			events = append(events, Event{Type: deleted, Object: o})
		case was: // delivered as it was when it matched
			before.Revision = o.Revision
			events = append(events, Event{Type: deleted, Object: before})
		}
	}
	return events
}

// writes finds the write behind each change, and sets the writes' revisions. Writes that were done twice, not at all or
// not as requested are problems, and so are changes without a write.
func (l *log) writes(ops []*Op) []string {
	byValue, deletions := map[string]*Op{}, map[string][]*Op{}
	for _, op := range ops {
		switch {
		case op.Verb == Delete:
			deletions[op.Key] = append(deletions[op.Key], op)
		case op.Verb == Create || op.Verb == Update || op.Verb == Patch:
			byValue[op.value()] = op
		}
	}
	var problems []string
	done := map[*Op]bool{}
	for _, e := range l.entries {
		var p string
		if e.deleted {
			p = l.deletion(e, deletions[e.object.Key], done)
		} else {
			p = l.write(e, byValue, done)
		}
		if p != "" {
			problems = append(problems, p)
		}
	}
	for _, op := range ops {
		acknowledged := op.Outcome == OK && op.Verb != Get && op.Verb != List && op.Verb != Delete
		if acknowledged && !done[op] {
			problems = append(problems, "acknowledged, but not what happened: "+op.String())
		}
		if op.Verb == Delete && op.Outcome == OK && !done[op] && l.complete() {
			problems = append(problems, "acknowledged, but never told by a watch: "+op.String())
		}
	}
	return problems
}

// value returns the value that only this write sets.
func (op *Op) value() string {
	if op.Change.A != "" {
		return op.Change.A
	}
	return op.Change.B
}

// write checks a change that is not a deletion.
func (l *log) write(e entry, byValue map[string]*Op, done map[*Op]bool) string {
	o := e.object
	before, was := l.at(o.Key, o.Revision-1)
	from := l.previous(o.Key, o.Revision)
	value := o.A
	if was && o.A == before.A {
		value = o.B
	}
	op := byValue[value]
	switch {
	case op == nil:
		return fmt.Sprintf("%v: nobody wrote that", o)
	case op.Outcome == OK && op.Object == o:
		done[op] = true // even if the log has gaps
	case !l.whole(from, o.Revision):
		return "" // changes in between are unknown, so the value may come from an earlier write
	case done[op]:
		return fmt.Sprintf("%v at %d: done twice: %s", o, o.Revision, op)
	case op.Outcome != Unknown:
		return fmt.Sprintf("%v at %d: happened, but the writer was told otherwise: %s", o, o.Revision, op)
	default:
		done[op] = true
		op.Revision = o.Revision
		op.Object = o
	}
	if !l.whole(from, o.Revision) {
		return ""
	}
	if was == (op.Verb == Create) || was && !op.If.holds(before, false) {
		return fmt.Sprintf("%v at %d was %v before: %s", o, o.Revision, before, op)
	}
	want := op.apply(before)
	want.Revision = o.Revision
	if !was {
		want.UID = o.UID
	}
	if want != o {
		return fmt.Sprintf("%v at %d was %v before and should be %v: %s", o, o.Revision, before, want, op)
	}
	return ""
}

// deletion finds the write that deleted an object. If several writes without an answer could have, it is unknown.
func (l *log) deletion(e entry, candidates []*Op, done map[*Op]bool) string {
	o := e.object
	before, was := l.at(o.Key, o.Revision-1)
	unknown := false
	whole := l.whole(l.previous(o.Key, o.Revision), o.Revision)
	for _, op := range candidates {
		if op.Outcome == OK && op.Object.UID == o.UID {
			if done[op] {
				return fmt.Sprintf("%v was deleted again at %d: %s", o, o.Revision, op)
			}
			done[op] = true
			op.Revision = o.Revision
			if was && !op.If.holds(before, false) && whole {
				return fmt.Sprintf("%v was deleted at %d: %s", before, o.Revision, op)
			}
			return ""
		}
		unknown = unknown || op.Outcome == Unknown && (!whole || op.If.holds(before, false))
	}
	if !unknown {
		return fmt.Sprintf("%v is deleted at %d, which nobody asked for", o, o.Revision)
	}
	return ""
}
