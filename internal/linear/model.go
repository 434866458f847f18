package linear

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// maxKeys is the maximum number of objects in one history.
const maxKeys = 8

// state is the state after some operations in some order. An object without a Key does not exist. An object whose write
// had no answer has no UID, and its revision is the negative of the least possible one; the first answer that shows it
// determines both.
type state struct {
	objects [maxKeys]Object
	last    int64 // later writes must have greater revisions
}

// input is an operation in the model's form.
type input struct {
	op *Op
	at int // index of its key; -1 is all
}

// model is the sequential API of objects with these keys, in this order.
type model struct{ keys []string }

func (m model) porcupine() porcupine.Model {
	n := porcupine.NondeterministicModel{
		Init: func() []any { return []any{state{}} },
		Step: func(s, in, _ any) []any {
			next := s.(state)
			if !m.step(&next, in.(input)) {
				return nil
			}
			// An operation that will never happen any more need not have happened. One that still may can come last.
			if op := in.(input).op; op.Outcome == Unknown && op.Return != never && next != s.(state) {
				return []any{next, s}
			}
			return []any{next}
		},
		Hash: func(s any) uint64 {
			st := s.(state)
			h := uint64(st.last)
			for i := range st.objects {
				h = h*1099511628211 + uint64(st.objects[i].Revision)
			}
			return h
		},
		DescribeOperation: func(in, _ any) string { return in.(input).op.String() },
		DescribeState:     func(s any) string { return m.describe(s.(state)) },
	}
	return n.ToModel()
}

// step applies an operation; false means that it could not have had this outcome in this state.
func (m model) step(s *state, in input) bool {
	op := in.op
	if op.Verb == List {
		if in.at >= 0 {
			return s.shows(in.at, op.item(m.keys[in.at])) && s.reached(op.Revision)
		}
		for i, key := range m.keys {
			if !s.shows(i, op.item(key)) {
				return false
			}
		}
		return s.reached(op.Revision)
	}
	o := &s.objects[in.at]
	there := o.Key != ""
	switch op.Outcome {
	case NotFound:
		return !there && op.Verb != Create
	case Exists:
		return there && op.Verb == Create
	case Conflict:
		return op.Verb == Patch || there && !op.If.holds(*o, false)
	case OK:
		return s.did(op, in.at)
	case Unknown:
		s.may(op, in.at)
		return true
	default:
		return false
	}
}

// reached records a revision that the state is at.
func (s *state) reached(revision int64) bool {
	if revision < s.last {
		return false
	}
	s.last = revision
	return true
}

// shows reports whether an object matches what was seen, and fills in what was unknown.
func (s *state) shows(at int, seen Object) bool {
	o := &s.objects[at]
	if o.Key == "" || seen.Key == "" {
		return o.Key == seen.Key
	}
	if o.A != seen.A || o.B != seen.B || o.Label != seen.Label || o.UID != "" && o.UID != seen.UID {
		return false
	}
	if o.Revision != seen.Revision && (o.Revision >= 0 || seen.Revision < -o.Revision) {
		return false
	}
	o.UID, o.Revision = seen.UID, seen.Revision
	s.last = max(s.last, seen.Revision)
	return true
}

// did applies an operation that was done.
func (s *state) did(op *Op, at int) bool {
	o := &s.objects[at]
	there := o.Key != ""
	switch op.Verb {
	case Get:
		return there && s.shows(at, op.Object)
	case Create:
		if there {
			return false
		}
	case Delete:
		if !there || !op.If.holds(*o, true) || o.UID != "" && op.Object.UID != "" && o.UID != op.Object.UID {
			return false
		}
		*o = Object{}
		if op.Revision == 0 {
			return true
		}
		if op.Revision <= s.last {
			return false
		}
		s.last = op.Revision
		return true
	default:
		if !there || !op.If.holds(*o, true) {
			return false
		}
	}
	want := op.apply(*o)
	if op.Object.Revision <= s.last || op.Object.A != want.A || op.Object.B != want.B || op.Object.Label != want.Label ||
		want.UID != "" && op.Object.UID != want.UID {
		return false
	}
	*o = op.Object
	s.last = op.Object.Revision
	return true
}

// may applies a write without an answer at the moment of its effect, if it can have had one.
func (s *state) may(op *Op, at int) {
	o := &s.objects[at]
	there := o.Key != ""
	if there == (op.Verb == Create) || there && !op.If.holds(*o, true) {
		return
	}
	if op.Verb == Delete {
		*o = Object{}
		return
	}
	next := op.apply(*o)
	next.Revision = -(s.last + 1)
	*o = next
}

// apply returns the object after a create, update or patch.
func (op *Op) apply(o Object) Object {
	o.Key = op.Key
	c := op.Change
	if op.Verb == Patch {
		if c.A != "" {
			o.A = c.A
		}
		if c.B != "" {
			o.B = c.B
		}
		if c.Label == "" {
			return o
		}
	} else {
		o.A, o.B = c.A, c.B
	}
	o.Label = strings.TrimPrefix(c.Label, "-")
	return o
}

// holds reports whether a condition holds; unsure is the result for unknown parts of the object.
func (c Condition) holds(o Object, unsure bool) bool {
	if c.Revision > 0 && o.Revision < 0 {
		if c.Revision < -o.Revision {
			return false
		}
		return unsure
	}
	if c.UID != "" && o.UID == "" {
		return unsure
	}
	return (c.Revision == 0 || c.Revision == o.Revision) && (c.UID == "" || c.UID == o.UID)
}

// item returns what a list shows for a key.
func (op *Op) item(key string) Object {
	for _, o := range op.Items {
		if o.Key == key {
			return o
		}
	}
	return Object{}
}

// linearizable reports whether the model covers this operation.
func (op *Op) linearizable() bool {
	switch op.Verb {
	case Get:
		return op.Outcome != Unknown
	case List:
		return op.Outcome == OK && (op.Mode == Consistent || op.Mode == Paged)
	default:
		return true
	}
}

// String is for people.
func (op *Op) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", op.Verb, op.Key)
	if op.Verb == List {
		fmt.Fprintf(&b, "%s @%d", op.Mode, op.Ask)
	} else if op.Verb != Get {
		fmt.Fprintf(&b, " %v if %v", op.Change, op.If)
	}
	fmt.Fprintf(&b, " at server %d: %s", op.Server, op.Outcome)
	switch {
	case op.Verb == List && op.Outcome == OK:
		fmt.Fprintf(&b, " @%d %v", op.Revision, op.Items)
	case op.Outcome == OK:
		fmt.Fprintf(&b, " %v", op.Object)
	case op.Message != "":
		fmt.Fprintf(&b, " (%s)", op.Message)
	}
	return b.String()
}

func (m model) describe(s state) string {
	var b strings.Builder
	for i, key := range m.keys {
		if s.objects[i].Key != "" {
			fmt.Fprintf(&b, "%s=%v ", key, s.objects[i])
		}
	}
	fmt.Fprintf(&b, "@%d", s.last)
	return b.String()
}

// verdict is porcupine's result for a history.
type verdict struct {
	what   string // the namespace, or a key
	result porcupine.CheckResult
	model  porcupine.Model
	info   porcupine.LinearizationInfo

	history []porcupine.Operation
}

// linearize checks each key, and the namespace as a whole.
func linearize(ops []*Op, patience time.Duration) ([]verdict, error) {
	var m model
	for _, op := range ops {
		for _, key := range append([]string{op.Key}, keysOf(op.Items)...) {
			if key != "" && !slices.Contains(m.keys, key) {
				m.keys = append(m.keys, key)
			}
		}
	}
	slices.Sort(m.keys)
	if len(m.keys) > maxKeys {
		return nil, fmt.Errorf("a history is about at most %d keys, this one about %d", maxKeys, len(m.keys))
	}
	var verdicts []verdict
	check := func(what string, at int) {
		history := m.history(ops, at)
		p := m.porcupine()
		result, info := porcupine.CheckOperationsVerbose(p, history, patience)
		verdicts = append(verdicts, verdict{what, result, p, info, history})
	}
	for i, key := range m.keys {
		check(key, i)
	}
	check("namespace", -1)
	return verdicts, nil
}

// stuck describes where the longest order found by porcupine ends: the state there, and the operations that come next.
func (v verdict) stuck() string {
	var longest []porcupine.Operation
	for _, partition := range v.info.PartialLinearizationsOperations() {
		for _, order := range partition {
			if len(order) > len(longest) {
				longest = order
			}
		}
	}
	current, in := v.model.Init(), map[*Op]bool{}
	for _, o := range longest {
		_, current = v.model.Step(current, o.Input, nil)
		in[o.Input.(input).op] = true
	}
	var next []*Op
	for _, o := range v.history {
		if op := o.Input.(input).op; !in[op] {
			next = append(next, op)
		}
	}
	slices.SortStableFunc(next, func(a, b *Op) int { return cmp.Compare(a.Return, b.Return) })
	var b strings.Builder
	fmt.Fprintf(&b, "after %d of %d operations there is %s", len(longest), len(v.history), v.model.DescribeState(current))
	const most = 8
	for _, op := range next[:min(most, len(next))] {
		fmt.Fprintf(&b, "\n    %d to %d, client %d: %s", op.Call, op.Return, op.Client, op)
	}
	return b.String()
}

// history returns the operations on one key, with what lists show of it, or on all.
func (m model) history(ops []*Op, at int) []porcupine.Operation {
	var history []porcupine.Operation
	for _, op := range ops {
		if !op.linearizable() {
			continue
		}
		in := input{op: op, at: slices.Index(m.keys, op.Key)}
		if at >= 0 && op.Verb == List {
			in.at = at
		}
		if at >= 0 && in.at != at {
			continue
		}
		history = append(history, porcupine.Operation{ClientId: op.Client, Input: in, Call: op.Call, Return: op.Return})
	}
	slices.SortFunc(history, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	return history
}

func keysOf(objects []Object) []string {
	keys := make([]string, len(objects))
	for i, o := range objects {
		keys[i] = o.Key
	}
	return keys
}
