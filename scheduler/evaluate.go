package scheduler

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// passed and left stand in for the number of a predicate in evaluation.refusedBy.
const (
	passed = -1 // no predicate refuses the node
	left   = -2 // a Prepared.Nodes leaves the node out
)

// evaluation is one pod against all nodes of a snapshot. Its slices are reused by the next one.
type evaluation struct {
	profile  *Profile
	pod      *corev1.Pod
	snapshot *Snapshot

	// Of each node of the snapshot:
	refusedBy []int16 // number of the predicate, passed or left
	refusals  []*Refusal
	looked    int // at how many nodes

	// whole is the predicate that refuses the pod on all nodes, with wholeRefusal.
	whole        int
	wholeRefusal *Refusal
	only         restriction

	feasible []int32 // numbers of the nodes that pass
	nodes    []*NodeInfo
	scores   scoring
	chosen   int // index into feasible, -1 when there is none
	err      error
}

// restriction is what Prepared.Nodes leave: nil names are all nodes.
type restriction struct {
	names map[string]bool
	by    []string // whose names they are
}

// scoring is what the priorities say about the feasible nodes.
type scoring struct {
	// Of each priority, of each feasible node; nil when it was skipped.
	raw, normalized [][]int64
	totals          []int64
	room            []int64 // that the above are made of
}

// reset makes room for scores of so many nodes by so many priorities.
func (s *scoring) reset(nodes, priorities int) {
	s.raw, s.normalized, s.totals = s.raw[:0], s.normalized[:0], nil
	s.room = slices.Grow(s.room[:0], nodes*(2*priorities+1))
}

// numbers returns n numbers to be set.
func (s *scoring) numbers(n int) []int64 {
	s.room = s.room[:len(s.room)+n]
	return s.room[len(s.room)-n : len(s.room) : len(s.room)]
}

// run evaluates, with what class remembers if it is not nil.
func (e *evaluation) run(p *Profile, class *class, pod *corev1.Pod, s *Snapshot) {
	e.reset(p, pod, s)
	if len(s.nodes) == 0 {
		e.err = ErrNoNodes
		return
	}
	checks, err := e.prepare(class)
	if err != nil {
		e.err = err
		return
	}
	if e.only.names != nil {
		class = nil // made for few nodes, not worth remembering for all
	}
	if e.wholeRefusal == nil {
		e.filter(class, checks)
	}
	if e.err != nil {
		return
	}
	switch len(e.feasible) {
	case 0:
		e.err = e.fitError()
	case 1:
		e.chosen = 0
	default:
		if e.err = e.score(class); e.err == nil {
			e.choose()
		}
	}
}

func (e *evaluation) reset(p *Profile, pod *corev1.Pod, s *Snapshot) {
	e.profile, e.pod, e.snapshot = p, pod, s
	e.whole, e.wholeRefusal, e.only = passed, nil, restriction{}
	e.feasible, e.nodes = e.feasible[:0], e.nodes[:0]
	e.looked, e.chosen, e.err = 0, -1, nil
	e.scores.reset(0, 0)
	if n := len(s.nodes); cap(e.refusedBy) < n {
		e.refusedBy, e.refusals = make([]int16, n), make([]*Refusal, n)
	} else {
		e.refusedBy, e.refusals = e.refusedBy[:n], e.refusals[:n]
	}
}

// check is one predicate made ready for one pod.
type check struct {
	number int16
	local  bool // what it says is in the class
	call   func(*NodeInfo) *Refusal
}

// prepare asks the predicates about the pod as a whole.
func (e *evaluation) prepare(class *class) ([]check, error) {
	checks := make([]check, 0, len(e.profile.Predicates))
	for i, predicate := range e.profile.Predicates {
		prepared, err := e.prepareOne(class, i)
		switch {
		case err != nil:
			return nil, fmt.Errorf("running PreFilter plugin %q: %w", predicate.Name(), err)
		case prepared.Skip:
			continue
		case prepared.Refusal != nil && prepared.Refusal.Err != nil:
			return nil, fmt.Errorf("running PreFilter plugin %q: %w", predicate.Name(), prepared.Refusal.Err)
		case prepared.Refusal != nil:
			e.whole, e.wholeRefusal = i, prepared.Refusal
			if prepared.Refusal.Unresolvable {
				return nil, nil
			}
			continue
		}
		if prepared.Nodes != nil && e.restrict(predicate.Name(), prepared.Nodes) {
			return nil, nil
		}
		call := prepared.Check
		if call == nil {
			pod := e.pod
			call = func(n *NodeInfo) *Refusal { return predicate.Check(pod, n) }
		}
		checks = append(checks, check{number: int16(i), local: class != nil && class.localPredicates[i], call: call})
	}
	return checks, nil
}

func (e *evaluation) prepareOne(class *class, i int) (Prepared, error) {
	p, ok := e.profile.Predicates[i].(Preparer)
	if !ok {
		return Prepared{}, nil
	}
	if class == nil || !class.localPredicates[i] {
		return p.Prepare(e.pod, e.snapshot)
	}
	if class.prepared[i] == nil {
		prepared, err := p.Prepare(e.pod, e.snapshot)
		if err != nil {
			return Prepared{}, err
		}
		class.prepared[i] = &prepared
	}
	return *class.prepared[i], nil
}

// restrict takes in the names that a predicate leaves, and says whether none is left.
func (e *evaluation) restrict(name string, names []string) bool {
	e.only.by = append(e.only.by, name)
	only := make(map[string]bool, len(names))
	for _, n := range names {
		if e.only.names == nil || e.only.names[n] {
			only[n] = true
		}
	}
	if e.only.names = only; len(only) > 0 {
		return false
	}
	by := slices.Sorted(slices.Values(e.only.by))
	reason := fmt.Sprintf("node(s) didn't satisfy plugin(s) %v simultaneously", by)
	if len(by) == 1 {
		reason = "node(s) didn't satisfy plugin " + by[0]
	}
	e.wholeRefusal = &Refusal{Reasons: []string{reason}, Unresolvable: true}
	e.whole = left
	return true
}

// filter asks the predicates about each node.
func (e *evaluation) filter(class *class, checks []check) {
	var leftOut *Refusal
	if e.only.names != nil {
		by := slices.Sorted(slices.Values(e.only.by))
		leftOut = &Refusal{Reasons: []string{fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", by)}, Unresolvable: true}
	}
	if class != nil {
		class.follow(e.snapshot, checks)
	}
	var foreign []check // those that the class knows nothing about
	for _, c := range checks {
		if class == nil || !c.local {
			foreign = append(foreign, c)
		}
	}
	for i, node := range e.snapshot.nodes {
		e.looked++
		if e.only.names != nil && !e.only.names[node.Name] {
			e.refusedBy[i], e.refusals[i] = left, leftOut
			continue
		}
		by, refusal := int16(passed), (*Refusal)(nil)
		if class != nil {
			by, refusal = class.refusedBy[i], class.refusals[i]
		}
		for _, c := range foreign {
			if by != passed && c.number > by {
				break
			}
			if r := c.call(node); r != nil {
				by, refusal = c.number, r
				break
			}
		}
		e.refusedBy[i], e.refusals[i] = by, refusal
		switch {
		case refusal == nil:
			e.feasible = append(e.feasible, int32(i))
			e.nodes = append(e.nodes, node)
		case refusal.Err != nil:
			e.err = fmt.Errorf("running %q filter plugin: %w", e.profile.Predicates[by].Name(), refusal.Err)
			return
		}
	}
}

// score asks the priorities about the feasible nodes and adds up.
func (e *evaluation) score(class *class) error {
	e.scores.reset(len(e.feasible), len(e.profile.Priorities))
	totals := e.scores.numbers(len(e.feasible))
	clear(totals)
	e.scores.totals = totals
	for i, w := range e.profile.Priorities {
		raw, err := e.rawScores(class, i)
		if err != nil {
			return fmt.Errorf("running PreScore plugin %q: %w", w.Priority.Name(), err)
		}
		normalized := raw
		if n, ok := w.Priority.(Normalizer); ok && raw != nil {
			normalized = e.scores.numbers(len(raw))
			copy(normalized, raw)
			n.Normalize(e.pod, normalized)
		}
		e.scores.raw, e.scores.normalized = append(e.scores.raw, raw), append(e.scores.normalized, normalized)
		for j, s := range normalized {
			if s < 0 || s > MaxScore {
				return fmt.Errorf("applying score defaultWeights on Score plugins: plugin %q returns an invalid score %v, it should in the range of [0, %v] after normalizing", w.Priority.Name(), s, MaxScore)
			}
			totals[j] += s * w.Weight
		}
	}
	return nil
}

// rawScores are one priority's scores of the feasible nodes, nil when it has no opinion.
func (e *evaluation) rawScores(class *class, i int) ([]int64, error) {
	priority := e.profile.Priorities[i].Priority
	if class != nil && class.localPriorities[i] {
		return class.scores(e, i)
	}
	call, err := prepareScores(priority, e)
	if call == nil {
		return nil, err
	}
	raw := e.scores.numbers(len(e.nodes))
	for j, node := range e.nodes {
		raw[j] = call(node)
	}
	return raw, nil
}

// prepareScores returns nil for a priority that has no opinion on the pod.
func prepareScores(priority Priority, e *evaluation) (func(*NodeInfo) int64, error) {
	var prepared PreparedScores
	if p, ok := priority.(ScorePreparer); ok {
		var err error
		if prepared, err = p.PrepareScores(e.pod, e.snapshot, e.nodes); err != nil || prepared.Skip {
			return nil, err
		}
	}
	if prepared.Score != nil {
		return prepared.Score, nil
	}
	pod := e.pod
	return func(n *NodeInfo) int64 { return priority.Score(pod, n) }, nil
}

// choose takes the best total; of equals, the one of the highest rank.
func (e *evaluation) choose() {
	seed := hash(hash(e.profile.Seed, e.pod.Namespace), e.pod.Name)
	best, rank := int64(-1), uint64(0)
	for j, total := range e.scores.totals {
		if total < best {
			continue
		}
		r := hash(seed, e.nodes[j].Name)
		if total > best || r > rank {
			best, rank, e.chosen = total, r, j
		}
	}
}

// hash is FNV-1a over a string that starts from a seed, mixed so that all bits count.
func hash(seed uint64, s string) uint64 {
	h := seed ^ 0xcbf29ce484222325
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 0x100000001b3
	}
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// rejectors are the names of the predicates that refused any node, sorted.
func (e *evaluation) rejectors() []string {
	var names []string
	add := func(name string) {
		if i, ok := slices.BinarySearch(names, name); !ok {
			names = slices.Insert(names, i, name)
		}
	}
	for _, name := range e.only.by {
		add(name)
	}
	if e.wholeRefusal != nil {
		if e.whole >= 0 {
			add(e.profile.Predicates[e.whole].Name())
		}
		return names
	}
	last := int16(passed)
	for _, by := range e.refusedBy {
		if by >= 0 && by != last {
			add(e.profile.Predicates[by].Name())
			last = by
		}
	}
	return names
}

// name is the predicate behind a number in refusedBy.
func (e *evaluation) name(by int) string {
	if by == left {
		return strings.Join(slices.Sorted(slices.Values(e.only.by)), ",")
	}
	return e.profile.Predicates[by].Name()
}
