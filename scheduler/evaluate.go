package scheduler

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
)

// passed and left are used in evaluation.refusedBy instead of a predicate's number.
const (
	passed = -1 // no predicate refuses the node
	left   = -2 // a Prepared.Nodes excludes the node
)

// evaluation evaluates one pod against all nodes of a snapshot. Its slices are reused by the next one.
type evaluation struct {
	plugins  *roles
	pod      *corev1.Pod
	snapshot *Snapshot

	refused
	consulting

	// whole is the predicate that refuses the pod on all nodes, with wholeRefusal.
	whole        int
	wholeRefusal *Refusal
	only         restriction
	checks       []check // of the predicates that have something to check

	feasible []int32 // numbers of the feasible nodes
	nodes    []*NodeInfo
	scores   scoring
	chosen   int // index into feasible, -1 if there is none
	err      error
}

// refused are refusals by node of the snapshot.
type refused struct {
	refusedBy []int16 // number of the predicate, passed or left
	refusals  []*Refusal
	looked    span // what was checked
}

// span are n nodes of a snapshot from a place on.
type span struct{ from, n int }

// restriction is the intersection of all Prepared.Nodes; nil names means all nodes.
type restriction struct {
	names map[string]bool
	by    []string // the predicates that restrict
}

// scoring is the priorities' scores of the feasible nodes.
type scoring struct {
	// By priority and feasible node; nil for a skipped priority.
	raw, normalized [][]int64
	totals          []int64
	room            []int64 // backing array of the above
}

// reset prepares scores of so many nodes by so many priorities.
func (s *scoring) reset(nodes, priorities int) {
	s.raw, s.normalized, s.totals = s.raw[:0], s.normalized[:0], nil
	s.room = slices.Grow(s.room[:0], nodes*(2*priorities+1))
}

// numbers returns n numbers to be set.
func (s *scoring) numbers(n int) []int64 {
	s.room = s.room[:len(s.room)+n]
	return s.room[len(s.room)-n : len(s.room) : len(s.room)]
}

// run evaluates a pod, with the cache of its class unless that is nil.
func (e *evaluation) run(p *roles, class *class, pod *corev1.Pod, s *Snapshot) {
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
	e.checks = checks
	if e.only.names != nil {
		class = nil // restricted to few nodes, not worth caching for all
	}
	if e.wholeRefusal == nil && !e.nominee(checks) {
		e.filter(class, checks)
		if e.err == nil {
			e.err = e.consult(true)
		}
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

func (e *evaluation) reset(p *roles, pod *corev1.Pod, s *Snapshot) {
	e.plugins, e.pod, e.snapshot = p, pod, s
	e.whole, e.wholeRefusal, e.only, e.checks = passed, nil, restriction{}, nil
	e.feasible, e.nodes = e.feasible[:0], e.nodes[:0]
	e.looked, e.chosen, e.err = span{}, -1, nil
	e.scores.reset(0, 0)
	if n := len(s.nodes); cap(e.refusedBy) < n {
		e.refusedBy, e.refusals = make([]int16, n), make([]*Refusal, n)
	} else {
		e.refusedBy, e.refusals = e.refusedBy[:n], e.refusals[:n]
	}
}

// check is one predicate prepared for one pod.
type check struct {
	number int16
	local  bool // its results are cached in the class
	call   func(*NodeInfo) *Refusal
	// changed checks a node whose pods are not those in the snapshot; nil if call does.
	changed func(was, is *NodeInfo) *Refusal
	all     []*Refusal // what call returns for each node of the snapshot, if that is known
}

// at returns the result for the node of a number in the snapshot.
func (c *check) at(i int, node *NodeInfo) *Refusal {
	if c.all != nil {
		return c.all[i]
	}
	return c.call(node)
}

// prepare calls the predicates' Prepare for the pod.
func (e *evaluation) prepare(class *class) ([]check, error) {
	checks := make([]check, 0, len(e.plugins.predicates))
	for i, predicate := range e.plugins.predicates {
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
			prepared.Check = func(*NodeInfo) *Refusal { return prepared.Refusal } // removing pods might help
			prepared.Nodes = nil
		}
		if prepared.Nodes != nil && e.restrict(predicate.Name(), prepared.Nodes) {
			return nil, nil
		}
		call := prepared.Check
		if call == nil {
			pod := e.pod
			call = func(n *NodeInfo) *Refusal { return predicate.Check(pod, n) }
		}
		checks = append(checks, check{
			number: int16(i), local: class != nil && class.localPredicates[i],
			call: call, changed: e.changed(predicate, prepared), all: prepared.Refusals,
		})
	}
	return checks, nil
}

func (e *evaluation) prepareOne(class *class, i int) (Prepared, error) {
	p, ok := e.plugins.predicates[i].(Preparer)
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

// changed returns how to check a node with other pods than in the snapshot; nil if its usual check suffices.
func (e *evaluation) changed(predicate Predicate, prepared Prepared) func(was, is *NodeInfo) *Refusal {
	if prepared.CheckChanged != nil {
		return prepared.CheckChanged
	}
	p, prepares := predicate.(Preparer)
	if _, local := predicate.(Local); local || !prepares {
		return nil
	}
	pod, s := e.pod, e.snapshot
	return func(_, is *NodeInfo) *Refusal {
		again, err := p.Prepare(pod, s.with(is))
		switch {
		case err != nil:
			return &Refusal{Err: err}
		case again.Skip:
			return nil
		case again.Refusal != nil:
			return again.Refusal
		case again.Nodes != nil && !slices.Contains(again.Nodes, is.Name):
			return leftOut([]string{predicate.Name()})
		case again.Check != nil:
			return again.Check(is)
		}
		return predicate.Check(pod, is)
	}
}

// leftOut is the refusal of a node that is not among the Prepared.Nodes of the named predicates.
func leftOut(by []string) *Refusal {
	return &Refusal{Reasons: []string{fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", by)}, Unresolvable: true}
}

// restrict intersects the nodes with names, and reports whether none is left.
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

// nominee checks the node for which the pod is nominated, if any, and reports whether the search ends there.
func (e *evaluation) nominee(checks []check) bool {
	name := e.pod.Status.NominatedNodeName
	if e.only.names != nil && !e.only.names[name] {
		return false
	}
	i, ok := find(e.snapshot.nodes, name)
	if !ok {
		return false
	}
	node := e.snapshot.nodes[i]
	if _, r := e.fitsWithNominated(node, node, checks); r != nil {
		return false
	}
	if _, r := ask(node, checks); r != nil {
		return false
	}
	e.looked = span{i, 1}
	e.refusedBy[i], e.refusals[i] = passed, nil
	e.feasible, e.nodes = append(e.feasible, int32(i)), append(e.nodes, node)
	switch err := e.consult(false); {
	case errors.Is(err, errUnanswered):
		e.err = err
		return true
	case err == nil && len(e.feasible) > 0:
		return true
	}
	e.looked, e.feasible, e.nodes = span{}, e.feasible[:0], e.nodes[:0]
	return false
}

// ask calls the checks for a node until one refuses it.
func ask(node *NodeInfo, checks []check) (int16, *Refusal) {
	for _, c := range checks {
		if r := c.call(node); r != nil {
			return c.number, r
		}
	}
	return passed, nil
}

// fitsWithNominated checks a node together with the pods that are nominated for it and have at least this pod's priority;
// the node must pass without them, too. was is the node in the snapshot.
func (e *evaluation) fitsWithNominated(was, node *NodeInfo, checks []check) (int16, *Refusal) {
	with := node
	for _, other := range e.snapshot.nominated[node.Name].infos {
		if !samePod(other.Pod, e.pod) && corev1helpers.PodPriority(other.Pod) >= corev1helpers.PodPriority(e.pod) {
			with = with.withPodInfo(other)
		}
	}
	if with == node {
		return passed, nil
	}
	return askChanged(was, with, checks)
}

// askChanged is ask for a node whose pods are not those in the snapshot.
func askChanged(was, is *NodeInfo, checks []check) (int16, *Refusal) {
	for _, c := range checks {
		var r *Refusal
		if c.changed != nil {
			r = c.changed(was, is)
		} else {
			r = c.call(is)
		}
		if r != nil {
			return c.number, r
		}
	}
	return passed, nil
}

// filter checks each node.
func (e *evaluation) filter(class *class, checks []check) {
	var excluded *Refusal
	if e.only.names != nil {
		by := slices.Sorted(slices.Values(e.only.by))
		excluded = leftOut(by)
	}
	if class != nil {
		class.follow(e.snapshot, checks)
	}
	var foreign []check // those that the class does not cache
	for _, c := range checks {
		if class == nil || !c.local {
			foreign = append(foreign, c)
		}
	}
	for i, node := range e.snapshot.nodes {
		e.looked.n++
		if e.only.names != nil && !e.only.names[node.Name] {
			e.refusedBy[i], e.refusals[i] = left, excluded
			continue
		}
		by, refusal := int16(passed), (*Refusal)(nil)
		if len(e.snapshot.nominated) > 0 {
			by, refusal = e.fitsWithNominated(node, node, checks)
		}
		if refusal == nil {
			if class != nil {
				by, refusal = class.refusedBy[i], class.refusals[i]
			}
			if len(foreign) > 0 {
				by, refusal = e.askBefore(i, foreign, by, refusal)
			}
		}
		e.refusedBy[i], e.refusals[i] = by, refusal
		switch {
		case refusal == nil:
			e.feasible = append(e.feasible, int32(i))
			e.nodes = append(e.nodes, node)
		case refusal.Err != nil:
			e.err = e.failure(by, refusal.Err)
			return
		}
	}
}

// askBefore calls the checks that precede the one that refuses the node of a number already, if any.
func (e *evaluation) askBefore(i int, checks []check, by int16, refusal *Refusal) (int16, *Refusal) {
	for k := range checks {
		c := &checks[k]
		if by != passed && c.number > by {
			break
		}
		if r := c.at(i, e.snapshot.nodes[i]); r != nil {
			return c.number, r
		}
	}
	return by, refusal
}

// score calls the priorities for the feasible nodes and adds up the totals.
func (e *evaluation) score(class *class) error {
	e.scores.reset(len(e.feasible), len(e.plugins.priorities))
	totals := e.scores.numbers(len(e.feasible))
	clear(totals)
	e.scores.totals = totals
	for i, w := range e.plugins.priorities {
		raw, err := e.rawScores(class, i)
		if err != nil {
			return fmt.Errorf("running PreScore plugin %q: %w", w.Name(), err)
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
				return fmt.Errorf("applying score defaultWeights on Score plugins: plugin %q returns an invalid score %v, it should in the range of [0, %v] after normalizing", w.Name(), s, MaxScore)
			}
			totals[j] += s * w.weight
		}
	}
	return nil
}

// rawScores returns one priority's scores of the feasible nodes, nil if it skips the pod.
func (e *evaluation) rawScores(class *class, i int) ([]int64, error) {
	priority := e.plugins.priorities[i].Priority
	if class != nil && class.localPriorities[i] {
		return class.scores(e, i)
	}
	if rater, ok := priority.(Rater); ok {
		return e.rated(rater), nil
	}
	call, all, err := prepareScores(priority, e)
	if call == nil && all == nil {
		return nil, err
	}
	raw := e.scores.numbers(len(e.nodes))
	if all != nil {
		copy(raw, all)
		return raw, nil
	}
	for j, node := range e.nodes {
		raw[j] = call(node)
	}
	return raw, nil
}

// prepareScores returns a function for the scores, or the scores of the feasible nodes, or neither for a priority that
// skips the pod.
func prepareScores(priority Priority, e *evaluation) (func(*NodeInfo) int64, []int64, error) {
	var prepared PreparedScores
	if p, ok := priority.(ScorePreparer); ok {
		var err error
		if prepared, err = p.PrepareScores(e.pod, e.snapshot, e.nodes); err != nil || prepared.Skip {
			return nil, nil, err
		}
	}
	if prepared.Scores != nil || prepared.Score != nil {
		return prepared.Score, prepared.Scores, nil
	}
	pod := e.pod
	return func(n *NodeInfo) int64 { return priority.Score(pod, n) }, nil, nil
}

// choose chooses the best total, and among equals the highest rank.
func (e *evaluation) choose() {
	seed := hash(hash(e.plugins.seed, e.pod.Namespace), e.pod.Name)
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

// hash is FNV-1a over a string, starting from a seed, mixed so that all bits count.
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

// rejectors returns the names of the predicates that refused any node, sorted.
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
			add(e.plugins.predicates[e.whole].Name())
		}
		return names
	}
	last := int16(passed)
	for _, by := range e.refusedBy {
		if by >= 0 && by != last {
			add(e.name(int(by)))
			last = by
		}
	}
	return names
}

// name returns the predicate or winnower of a number in refusedBy.
func (e *evaluation) name(by int) string {
	if by == left {
		return strings.Join(slices.Sorted(slices.Values(e.only.by)), ",")
	}
	if k := by - len(e.plugins.predicates); k >= 0 {
		return e.plugins.winnowers[k].Name()
	}
	return e.plugins.predicates[by].Name()
}
