package plugins

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/budgets"
)

// DefaultPreemption makes room for pods that fit nowhere by removing pods of lower priority from a node. It considers
// nodes that would take the pod without them, as many as Candidates says, and spares as many pods as it can, first those
// with a disruption budget that does not allow their removal, and of these and of the others the most important first. Of
// the nodes it chooses the one with the fewest violated budgets, and among equals that with the lowest highest priority,
// the lowest sum of priorities, the fewest victims, and the latest start of the victims of the highest priority.
//
// It does not preempt for pods with preemptionPolicy Never, nor while victims of an earlier preemption are terminating on
// the pod's nominated node.
//
// Without Budgets, it assumes that there are none.
type DefaultPreemption struct {
	Budgets *budgets.Budgets
	// Candidates limits the search; the zero value is upstream's, 10 % of the nodes and at least 100.
	Candidates Candidates
	// Reviewers decide about the candidates, one after the other.
	Reviewers []Reviewer
}

// Candidates is how many nodes are considered for preemption, if there are as many: the greater of a percentage of those
// where it might help, and an absolute number.
type Candidates struct {
	// Percentage and Absolute are those numbers of nodes.
	Percentage, Absolute int
}

// number returns how many of n nodes to consider.
func (c Candidates) number(n int) int {
	if c == (Candidates{}) {
		c = Candidates{Percentage: 10, Absolute: 100}
	}
	return min(max(n*c.Percentage/100, c.Absolute), n)
}

// Name returns "DefaultPreemption".
func (DefaultPreemption) Name() string { return "DefaultPreemption" }

// Preempt nominates the best node with its victims.
func (p DefaultPreemption) Preempt(ctx context.Context, t *scheduler.Trial) (*scheduler.Nomination, error) {
	if reason := ineligible(t); reason != "" {
		return nil, scheduler.Refuse("preemption: " + reason)
	}
	search := newSearch(t, p.Budgets, time.Now())
	candidates := search.candidates(p.Candidates)
	switch {
	case len(candidates) == 0 && len(search.failures) > 0:
		return nil, fmt.Errorf("preemption: %w", utilerrors.NewAggregate(search.failures))
	case len(candidates) == 0:
		return &scheduler.Nomination{}, scheduler.Refuse("preemption: " + search.unhelpful().Error())
	}
	candidates, err := p.review(ctx, t, candidates)
	switch {
	case err != nil:
		return nil, fmt.Errorf("preemption: %w", err)
	case len(candidates) == 0:
		return nil, scheduler.Refuse("preemption: no candidate node for preemption")
	}
	best := choose(candidates)
	return &scheduler.Nomination{
		Node: best.node, Victims: best.pods(),
		Message: fmt.Sprintf("preemption: found a potential placement for pod on node %v, preempting %d victims", best.node, len(best.victims)),
	}, nil
}

// ineligible returns why the pod may not preempt others now, or "".
func ineligible(t *scheduler.Trial) string {
	pod := t.Pod()
	if policy := pod.Spec.PreemptionPolicy; policy != nil && *policy == corev1.PreemptNever {
		return "not eligible due to preemptionPolicy=Never."
	}
	node, refusal := t.Node(pod.Status.NominatedNodeName)
	if node == nil || refusal != nil && refusal.Unresolvable {
		return "" // it must find another node
	}
	for _, other := range node.Pods {
		if corev1helpers.PodPriority(other.Pod) < corev1helpers.PodPriority(pod) && preempted(other.Pod) {
			return "not eligible due to a terminating pod on the nominated node."
		}
	}
	return ""
}

// preempted reports whether a pod is terminating because a scheduler preempted it.
func preempted(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp == nil {
		return false
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget {
			return c.Status == corev1.ConditionTrue && c.Reason == corev1.PodReasonPreemptionByScheduler
		}
	}
	return false
}
