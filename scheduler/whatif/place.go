package whatif

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"github.com/keelson-dev/keelson/scheduler"
)

// Placement is what became of a pod.
type Placement struct {
	Pod *corev1.Pod
	// From is the node on which the pod was before it was preempted, or before its node went; empty for others.
	From string
	// Node is where the pod is now, empty if it is pending.
	Node string
	// Victims are the pods that were preempted for it.
	Victims []*corev1.Pod
	// Err is why the pod is pending: a *scheduler.FitError, scheduler.ErrNoNodes, ErrProfile, ErrHeld, or the failure of a
	// plugin.
	Err error
}

// Place places a pod, after it has preempted others if need be, and returns what became of it. A pod that finds no node changes
// nothing.
func (w *World) Place(ctx context.Context, pod *corev1.Pod) Placement {
	done := Placement{Pod: pod}
	p, err := w.profile(pod)
	if err != nil {
		done.Err = err
		return done
	}
	if by, r := p.Held(pod); r != nil {
		done.Err = fmt.Errorf("%w by %s: %w", ErrHeld, by, r)
		return done
	}
	if done.Node, done.Err = p.planner.Place(pod, w.Snapshot()); done.Err != nil {
		w.preempt(ctx, p, &done)
	}
	if done.Err == nil {
		w.SetPod(at(pod, done.Node))
	}
	return done
}

// at returns a pod on a node.
func at(pod *corev1.Pod, node string) *corev1.Pod {
	c := *pod // only the node differs
	c.Spec.NodeName = node
	return &c
}

// preempt makes room for a pod that found no node.
func (w *World) preempt(ctx context.Context, p *profile, done *Placement) {
	var fit *scheduler.FitError
	if !errors.As(done.Err, &fit) {
		return
	}
	var nomination *scheduler.Nomination
	nomination, fit.Preemption = p.Preempt(ctx, p.planner.Trial(done.Pod, w.Snapshot(), ""))
	if nomination == nil || nomination.Node == "" {
		return
	}
	fork := w.Fork()
	for _, victim := range nomination.Victims {
		fork.RemovePod(victim)
	}
	nominated := *done.Pod // it is tried on that node first
	nominated.Status.NominatedNodeName = nomination.Node
	node, err := p.planner.Place(&nominated, fork.Snapshot())
	if err != nil || fork.Commit() != nil {
		return // another plugin keeps it from there
	}
	done.Node, done.Victims, done.Err = node, nomination.Victims, nil
}

// PlaceAll places pods, the most important first, and then in their order. Those that are preempted are placed again, as if
// their controllers made them again at once. It returns what became of each pod in the end, in the order in which this was
// decided.
func (w *World) PlaceAll(ctx context.Context, pods []*corev1.Pod) []Placement {
	waiting := make([]Placement, len(pods))
	for i, p := range pods {
		waiting[i].Pod = p
	}
	return w.placeAll(ctx, waiting)
}

func (w *World) placeAll(ctx context.Context, waiting []Placement) []Placement {
	byPriority := func(a, b Placement) int {
		return cmp.Compare(corev1helpers.PodPriority(b.Pod), corev1helpers.PodPriority(a.Pod))
	}
	slices.SortStableFunc(waiting, byPriority)
	done := make([]Placement, 0, len(waiting))
	for len(waiting) > 0 {
		next := waiting[0]
		waiting = waiting[1:]
		placed := w.Place(ctx, next.Pod)
		placed.From = next.From
		done = append(done, placed)
		for _, victim := range placed.Victims {
			again := Placement{Pod: pending(victim), From: victim.Spec.NodeName}
			// One that was placed here has no place any more.
			if i := slices.IndexFunc(done, func(p Placement) bool { return same(p.Pod, victim) }); i >= 0 {
				again.From = done[i].From
				done = slices.Delete(done, i, i+1)
			}
			i, _ := slices.BinarySearchFunc(waiting, again, func(a, b Placement) int {
				return cmp.Or(byPriority(a, b), -1) // after its equals
			})
			waiting = slices.Insert(waiting, i, again)
		}
	}
	return done
}

func same(a, b *corev1.Pod) bool { return a.Namespace == b.Namespace && a.Name == b.Name }

// pending returns a pod as its controller would make it again.
func pending(pod *corev1.Pod) *corev1.Pod {
	c := *pod
	c.Spec.NodeName, c.Status, c.DeletionTimestamp = "", corev1.PodStatus{}, nil
	return &c
}
