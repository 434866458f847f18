package scheduler

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// Winnower decides about all nodes that pass the Predicates in one call, as a program elsewhere does that answers slowly
// ("extender" upstream). Winnowers are called one after the other in the profile's order, each with what the one before
// has left, but not to find out whether preemption would help. A Winnower may also implement Rater and AskSkipper.
//
// A Scheduler calls Winnowers and Raters in goroutines that Run waits for, while it schedules other pods; each is called for
// one pod at a time. When all have answered, the pod is examined again: what was said counts for the nodes that pass the
// Predicates still, and other nodes are left out. If none is left of those that may take the pod, but others could, all are asked again,
// and also if the pod has changed.
//
// Implementations must be safe for concurrent use and change neither the pod nor the nodes.
type Winnower interface {
	Plugin
	// Winnow returns for each of the nodes, of which there is at least one, nil if it can take the pod, or else why not.
	// An error fails the attempt; it is retried with back-off. The context ends with Run, and when the pod goes.
	Winnow(ctx context.Context, pod *corev1.Pod, nodes []*NodeInfo) ([]*Refusal, error)
}

// Rater is a Priority that scores all nodes in one call, for programs elsewhere like a Winnower. It is called after all
// Winnowers, if at least two nodes are left, and instead of the other methods of a Priority but Normalize.
type Rater interface {
	Priority
	// Rate returns the scores of the nodes, in their order, or nil to skip the pod. An error fails the attempt; it is
	// retried with back-off. The context is that of Winnow.
	Rate(ctx context.Context, pod *corev1.Pod, nodes []*NodeInfo) ([]int64, error)
}

// AskSkipper is the part of a Winnower or Rater that knows which pods it has nothing to say about. These are scheduled as
// fast as without it, while others wait for it.
type AskSkipper interface {
	// SkipAsk reports whether to call neither Winnow nor Rate for the pod, and no Preemptor on its behalf. It must be quick.
	SkipAsk(pod *corev1.Pod) bool
}

// errUnanswered ends an evaluation for which plugins must be asked first.
var errUnanswered = errors.New("programs elsewhere must be asked first")

// asked returns the names of the plugins that must be asked about a pod.
func (r *roles) asked(pod *corev1.Pod) (names []string) {
	for _, w := range r.winnowers {
		if !skipsAsk(w, pod) {
			names = append(names, w.Name())
		}
	}
	for _, rater := range r.raters {
		if !skipsAsk(rater, pod) {
			names = append(names, rater.Name())
		}
	}
	return names
}

func skipsAsk(p Plugin, pod *corev1.Pod) bool {
	skipper, ok := p.(AskSkipper)
	return ok && skipper.SkipAsk(pod)
}

// question is about nodes that pass the predicates: all of them, or only the one for which the pod is nominated.
type question struct {
	pod   *corev1.Pod
	nodes []*NodeInfo
	all   bool
}

// answers are what Winnowers and Raters say to a question.
type answers struct {
	question
	err   error
	place map[string]int // of each node in the question
	// By place:
	refusedBy []int16 // number of the winnower, beyond those of the predicates
	refusals  []*Refusal
	scores    map[string][]int64 // by Rater; none of those that skip the pod
}

// ask asks all plugins that have something to say.
func (r *roles) ask(ctx context.Context, q question) *answers {
	a := &answers{
		question: q, place: make(map[string]int, len(q.nodes)), scores: map[string][]int64{},
		refusedBy: make([]int16, len(q.nodes)), refusals: make([]*Refusal, len(q.nodes)),
	}
	for i, n := range q.nodes {
		a.place[n.Name] = i
	}
	nodes := q.nodes
	for k, w := range r.winnowers {
		if len(nodes) == 0 || skipsAsk(w, q.pod) {
			continue
		}
		refusals, err := w.Winnow(ctx, q.pod, nodes)
		if err == nil && len(refusals) != len(nodes) {
			err = fmt.Errorf("plugin %q decided about %d nodes of %d", w.Name(), len(refusals), len(nodes))
		}
		if err != nil {
			a.err = err
			return a
		}
		nodes = a.refuse(int16(len(r.predicates)+k), nodes, refusals)
	}
	if len(nodes) > 1 {
		a.err = r.rate(ctx, a, nodes)
	}
	return a
}

// refuse records the refusals of a winnower and returns the nodes that it leaves.
func (a *answers) refuse(by int16, nodes []*NodeInfo, refusals []*Refusal) (left []*NodeInfo) {
	for j, n := range nodes {
		if refusals[j] == nil {
			left = append(left, n)
			continue
		}
		i := a.place[n.Name]
		a.refusedBy[i], a.refusals[i] = by, refusals[j]
	}
	return left
}

// rate asks for the scores of the nodes that no winnower refuses.
func (r *roles) rate(ctx context.Context, a *answers, nodes []*NodeInfo) error {
	for _, rater := range r.raters {
		if skipsAsk(rater, a.pod) {
			continue
		}
		scores, err := rater.Rate(ctx, a.pod, nodes)
		if err == nil && scores != nil && len(scores) != len(nodes) {
			err = fmt.Errorf("it scored %d nodes of %d", len(scores), len(nodes))
		}
		if err != nil {
			return fmt.Errorf("running PreScore plugin %q: %w", rater.Name(), err)
		}
		if scores == nil {
			continue
		}
		all := make([]int64, len(a.nodes))
		for j, n := range nodes {
			all[a.place[n.Name]] = scores[j]
		}
		a.scores[rater.Name()] = all
	}
	return nil
}

// consulting is how an evaluation consults Winnowers and Raters. The zero value asks them.
type consulting struct {
	// deferred: they are not asked, but errUnanswered ends the evaluation if the answers do not suffice. Then the feasible
	// nodes are to be asked about, and askAll says whether they are more than the one for which the pod is nominated.
	deferred bool
	answers  *answers
	askAll   bool
}

// consult leaves those of the feasible nodes that the winnowers leave. all means that they are not only the node for which
// the pod is nominated.
func (e *evaluation) consult(all bool) error {
	if len(e.nodes) == 0 || len(e.plugins.asked(e.pod)) == 0 {
		return nil
	}
	if !e.deferred {
		e.answers = e.plugins.ask(context.Background(), question{e.pod, e.nodes, all})
	} else if e.answers == nil || all && !e.answers.all {
		e.askAll = all
		return errUnanswered
	}
	if e.answers.err != nil {
		return e.answers.err
	}
	if all && !e.settled() {
		e.askAll = true
		return errUnanswered
	}
	left := 0
	for j, n := range e.nodes {
		at := e.feasible[j]
		if by, r := e.answer(n); r != nil {
			e.refusedBy[at], e.refusals[at] = by, r
			continue
		}
		e.feasible[left], e.nodes[left] = at, n
		left++
	}
	e.feasible, e.nodes = e.feasible[:left], e.nodes[:left]
	return nil
}

// settled reports whether the answers suffice: they leave one of the feasible nodes, or are about all of them.
func (e *evaluation) settled() bool {
	late := false
	for _, n := range e.nodes {
		i, ok := e.answers.place[n.Name]
		if ok && e.answers.refusals[i] == nil {
			return true
		}
		late = late || !ok
	}
	return !late
}

// answer returns what was said about a node.
func (e *evaluation) answer(n *NodeInfo) (by int16, r *Refusal) {
	if i, ok := e.answers.place[n.Name]; ok {
		return e.answers.refusedBy[i], e.answers.refusals[i]
	}
	return int16(len(e.plugins.predicates)), &Refusal{Reasons: []string{"node(s) were not available when extenders were asked"}}
}

// rated returns a Rater's scores of the feasible nodes, nil if it skips the pod.
func (e *evaluation) rated(rater Rater) []int64 {
	if e.answers == nil || e.answers.scores[rater.Name()] == nil {
		return nil
	}
	raw, scores := e.scores.numbers(len(e.nodes)), e.answers.scores[rater.Name()]
	for j, n := range e.nodes {
		raw[j] = scores[e.answers.place[n.Name]]
	}
	return raw
}
