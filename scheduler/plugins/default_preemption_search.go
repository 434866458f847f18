package plugins

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/budgets"
)

// candidate is a node and the pods to remove from it.
type candidate struct {
	node    string
	victims []*victim // the most important first
	// violations is how many of them violate a budget.
	violations int
}

func (c *candidate) pods() []*corev1.Pod {
	pods := make([]*corev1.Pod, len(c.victims))
	for i, v := range c.victims {
		pods[i] = v.Pod
	}
	return pods
}

// victim is a pod that may be removed.
type victim struct {
	*scheduler.PodInfo
	priority int32
	start    time.Time
	// order is 0 for a pod that has started, else its place on the node.
	order int
}

// byImportance orders the most important first: by priority, and then those that have run longest.
func byImportance(a, b *victim) int {
	return cmp.Or(cmp.Compare(b.priority, a.priority), a.start.Compare(b.start), cmp.Compare(a.order, b.order))
}

// search looks for nodes on which preemption helps.
type search struct {
	*scheduler.Trial
	budgets  *budgets.Set
	priority int32
	now      time.Time // counts as the start of pods that have not started
	young    bool      // a pod on the last node has not started, so that the result depends on the time

	reasons  map[string]int // why nodes are no candidates
	failures []error
}

func newSearch(t *scheduler.Trial, b *budgets.Budgets, now time.Time) *search {
	s := &search{Trial: t, priority: corev1helpers.PodPriority(t.Pod()), now: now, reasons: map[string]int{}}
	if b != nil {
		s.budgets = b.Current()
	}
	return s
}

// candidates returns nodes with their victims. The search begins at a node that depends on the seed, and ends when there
// are enough candidates, of which one violates no budget.
func (s *search) candidates(limit Candidates) []*candidate {
	nodes := s.Snapshot().Nodes()
	var potential []int
	for i := range nodes {
		if r := s.Refusal(i); r != nil && !r.Unresolvable {
			potential = append(potential, i)
		}
	}
	if unhelpful := len(nodes) - len(potential); unhelpful > 0 {
		s.reasons["Preemption is not helpful for scheduling"] = unhelpful
	}
	if len(potential) == 0 {
		return nil
	}
	enough, offset := limit.number(len(potential)), int(s.Seed()%uint64(len(potential)))
	var violating, others []*candidate
	memory := s.remember()
	for i := range potential {
		c, refusal := s.lookup(memory, potential[(offset+i)%len(potential)])
		switch {
		case refusal != nil:
			s.refused(refusal)
		case c.violations > 0:
			violating = append(violating, c)
		default:
			others = append(others, c)
		}
		if len(others) > 0 && len(others)+len(violating) >= enough {
			break
		}
	}
	return slices.Concat(others[:min(len(others), enough)], violating[:min(len(violating), enough)])
}

func (s *search) refused(r *scheduler.Refusal) {
	if r.Err != nil {
		s.failures = append(s.failures, r.Err)
	}
	for _, reason := range r.Reasons {
		s.reasons[reason]++
	}
}

// unhelpful returns why there is no candidate.
func (s *search) unhelpful() error {
	return &scheduler.FitError{Pod: s.Pod(), Nodes: len(s.Snapshot().Nodes()), Reasons: s.reasons}
}

// candidate returns the fewest important pods to remove from a node, or why it is no candidate.
func (s *search) candidate(node *scheduler.NodeInfo) (*candidate, *scheduler.Refusal) {
	s.young = false
	var lower []*victim
	rest := node.WithoutPods(func(p *scheduler.PodInfo) bool {
		priority := corev1helpers.PodPriority(p.Pod)
		if priority >= s.priority {
			return false
		}
		lower = append(lower, &victim{PodInfo: p, priority: priority, start: s.now, order: len(lower)})
		if start := p.Pod.Status.StartTime; start != nil {
			lower[len(lower)-1].start, lower[len(lower)-1].order = start.Time, 0
		} else {
			s.young = true
		}
		return true
	})
	if len(lower) == 0 {
		return nil, &scheduler.Refusal{Reasons: []string{"No preemption victims found for incoming pod"}, Unresolvable: true}
	}
	if refusal := s.Check(rest); refusal != nil {
		return nil, refusal
	}
	slices.SortFunc(lower, byImportance)
	c := &candidate{node: node.Name}
	s.spare(c, rest, lower)
	if len(c.victims) == 0 {
		return nil, &scheduler.Refusal{Err: fmt.Errorf("expected at least one victim pod on node %q", node.Name)}
	}
	return c, nil
}

// spare puts back what fits beside the pod, first those of which the removal violates a budget, and leaves the others as
// victims. A predicate that fails counts as one that refuses, as upstream.
func (s *search) spare(c *candidate, rest *scheduler.NodeInfo, lower []*victim) {
	pods := make([]*corev1.Pod, len(lower))
	for i, v := range lower {
		pods[i] = v.Pod
	}
	violated := s.budgets.Violated(pods)
	for _, violates := range []bool{true, false} {
		for i, v := range lower {
			if violated[i] != violates {
				continue
			}
			if with := rest.WithPods(v.PodInfo); s.Check(with) == nil {
				rest = with
				continue
			}
			c.victims = append(c.victims, v)
			if violates {
				c.violations++
			}
		}
	}
	if slices.Contains(violated, true) && slices.Contains(violated, false) {
		slices.SortFunc(c.victims, byImportance)
	}
}
