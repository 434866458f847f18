package linear

import (
	"math"
	"sync"
)

// Verb is the kind of an operation.
type Verb string

// The verbs.
const (
	Create Verb = "create"
	Get    Verb = "get"
	List   Verb = "list"
	Update Verb = "update" // with a resourceVersion: compare and swap
	Patch  Verb = "patch"  // without one: read, modify and write at the server
	Delete Verb = "delete"
)

// Outcome is the outcome of an operation, as its client knows it.
type Outcome string

// The outcomes. An Unknown operation may have happened, or may happen later.
const (
	OK       Outcome = "ok"
	Exists   Outcome = "exists"
	NotFound Outcome = "not found"
	Conflict Outcome = "conflict"
	Expired  Outcome = "expired"
	Unknown  Outcome = "unknown"
	Refused  Outcome = "refused" // for a reason that is never legitimate
)

// Mode is how a list is requested.
type Mode string

// The modes of a list. Consistent and Paged lists are linearizable, the latter although they take several requests; the
// others may be old.
const (
	Consistent Mode = ""
	Paged      Mode = "pages"
	Any        Mode = "any"
	NotOlder   Mode = "not older than"
	Exact      Mode = "exact"
)

// Object is the relevant part of an object's state. Every write sets A, B or both to a value unique to it.
type Object struct {
	Key      string
	UID      string
	Revision int64
	A, B     string
	Label    string
}

// Change is what a write sets; a patch leaves empty fields unchanged.
type Change struct {
	A, B string
	// Label is set with A; "-" removes it.
	Label string
}

// Condition is the precondition of a write.
type Condition struct {
	Revision int64
	UID      string
}

// Op is one operation of one client. Call and Return are ticks of a clock that all clients share.
type Op struct {
	Client int
	Server int
	Verb   Verb
	Key    string
	Change Change
	If     Condition
	Mode   Mode
	Ask    int64 // the revision that a list requests

	Call, Return int64
	Outcome      Outcome
	Object       Object   // the answer: for a deletion its UID, if that was returned
	Items        []Object // the answer of a list
	Revision     int64    // of the list, or the one that Check found for a deletion or an unknown write
	Message      string
}

const never = math.MaxInt64

// recorder is the clock and the record.
type recorder struct {
	mu       sync.Mutex
	now      int64
	ops      []*Op
	sessions []*Session
	settled  int // operations before this one are known to be over
}

func (r *recorder) tick() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now++
	return r.now
}

// call records the start of an operation.
func (r *recorder) call(op *Op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now++
	op.Call, op.Return, op.Outcome = r.now, never, Unknown
	r.ops = append(r.ops, op)
}

// answer records its outcome.
func (r *recorder) answer(op *Op, a answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now++
	op.Outcome, op.Object, op.Items, op.Revision, op.Message = a.outcome, a.object, a.items, a.revision, a.message
	if op.Outcome != Unknown {
		op.Return = r.now
		if a.at > 0 {
			op.Return = a.at
		}
	}
}

// barrier records that operations without an answer have either happened by now or never will.
func (r *recorder) barrier() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now++
	for _, op := range r.ops[r.settled:] {
		op.Return = min(op.Return, r.now)
	}
	r.settled = len(r.ops)
}

func (r *recorder) session(s *Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now++
	s.Call = r.now
	r.sessions = append(r.sessions, s)
}
