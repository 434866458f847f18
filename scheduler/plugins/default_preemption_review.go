package plugins

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/keelson-dev/keelson/scheduler"
)

// Victims are the pods to remove from a node.
type Victims struct {
	Pods []*corev1.Pod // on the node
	// Violations is how many of them violate a disruption budget.
	Violations int
}

// Reviewer decides about the nodes on which preemption would help, before one is chosen, as an extender does upstream.
// Implementations must be safe for concurrent use.
type Reviewer interface {
	// Review returns the nodes that are left, by name, each with at least one pod to remove; the map must not be changed. An
	// error ends the preemption and is reported. The scheduler waits meanwhile.
	Review(ctx context.Context, t *scheduler.Trial, nodes map[string]Victims) (map[string]Victims, error)
}

// review asks the reviewers about the candidates and returns those that are left, in the same order as far as they were known.
func (p *DefaultPreemption) review(ctx context.Context, t *scheduler.Trial, all []*candidate) ([]*candidate, error) {
	if len(p.Reviewers) == 0 {
		return all, nil
	}
	left := map[string]Victims{}
	var order []string
	for _, c := range all {
		left[c.node] = Victims{Pods: c.pods(), Violations: c.violations}
		order = append(order, c.node)
	}
	for _, r := range p.Reviewers {
		if len(left) == 0 {
			break
		}
		var err error
		if left, err = r.Review(ctx, t, left); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		if !slices.Contains(order, name) {
			order = append(order, name)
		}
	}
	now := time.Now()
	var candidates []*candidate
	for _, name := range order {
		v, ok := left[name]
		if !ok {
			continue
		}
		c := &candidate{node: name, violations: v.Violations}
		for i, pod := range v.Pods {
			c.victims = append(c.victims, chosenVictim(pod, i, now))
		}
		if len(c.victims) == 0 {
			return nil, fmt.Errorf("expected at least one victim pod on node %q", name)
		}
		slices.SortStableFunc(c.victims, byImportance)
		candidates = append(candidates, c)
	}
	return candidates, nil
}

func chosenVictim(pod *corev1.Pod, order int, now time.Time) *victim {
	v := &victim{PodInfo: &scheduler.PodInfo{Pod: pod}, priority: corev1helpers.PodPriority(pod), start: now, order: order}
	if start := pod.Status.StartTime; start != nil {
		v.start, v.order = start.Time, 0
	}
	return v
}
