package daemonset

import (
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// surges reports whether new pods of the set start beside old ones.
func surges(set *appsv1.DaemonSet) bool {
	n, err := surge(set, 1)
	return err == nil && n > 0
}

// surge returns how many of the desired nodes may have a second pod.
func surge(set *appsv1.DaemonSet, desired int) (int, error) {
	r := set.Spec.UpdateStrategy.RollingUpdate
	if set.Spec.UpdateStrategy.Type != appsv1.RollingUpdateDaemonSetStrategyType || r == nil || r.MaxSurge == nil {
		return 0, nil
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(r.MaxSurge, desired, true)
	if err != nil {
		return 0, fmt.Errorf("couldn't get unavailable numbers: invalid value for MaxSurge: %w", err)
	}
	return n, nil
}

// unavailable returns how many of the desired nodes may be without an available pod.
func unavailable(set *appsv1.DaemonSet, desired int) (int, error) {
	r := set.Spec.UpdateStrategy.RollingUpdate
	if r == nil {
		return 0, nil
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(r.MaxUnavailable, desired, true)
	if err != nil {
		return 0, fmt.Errorf("couldn't get unavailable numbers: invalid value for MaxUnavailable: %w", err)
	}
	return n, nil
}

// roll decides on the next step of a rolling update. It assumes that manage has nothing left to do: a node has one pod,
// or two if the update surges.
func (v view) roll(there byNode) (plan, error) {
	there = maps.Clone(there)
	runs, desired := map[string]bool{}, 0
	for _, node := range v.nodes {
		run, _ := v.place.on(node)
		runs[node.Name] = run
		if !run {
			continue
		}
		desired++
		if _, some := there[node.Name]; !some {
			there[node.Name] = nil // it counts, too
		}
	}
	most, err := unavailable(v.set, desired)
	if err != nil {
		return plan{}, err
	}
	extra, err := surge(v.set, desired)
	if err != nil {
		return plan{}, err
	}
	if extra > 0 {
		return v.beside(there, surging{runs: runs, most: extra, desired: desired})
	}
	if most == 0 && desired > 0 {
		most = 1 // neither is allowed, which validation does not let in
	}
	return v.replace(there, most), nil
}

// pair returns the pods of the current template and of older ones on a node. It fails if there are several of either.
func (v view) pair(here []*corev1.Pod) (young, old *corev1.Pod, ok bool) {
	for _, pod := range here {
		switch {
		case deleted(pod):
		case v.updated(pod):
			if young != nil {
				return nil, nil, false
			}
			young = pod
		default:
			if old != nil {
				return nil, nil, false
			}
			old = pod
		}
	}
	return young, old, true
}

// replace deletes old pods: all that are not available, and others as far as no more than most nodes are without an
// available pod.
func (v view) replace(there byNode, most int) plan {
	var broken, candidates []string
	missing := 0
	for _, node := range slices.Sorted(maps.Keys(there)) {
		young, old, _ := v.pair(there[node])
		switch {
		case (young == nil) == (old == nil): // for manage to see to
			missing++
		case young != nil:
			if !v.available(young) {
				missing++
			}
		case !v.available(old):
			broken = append(broken, old.Name)
			missing++
		default:
			candidates = append(candidates, old.Name)
		}
	}
	left := min(max(most-missing, 0), len(candidates))
	return plan{remove: append(broken, candidates[:left]...)}
}

// surging is a surge being decided on.
type surging struct {
	plan
	runs       map[string]bool // by node: whether it is to run a pod
	most       int             // nodes that may have two pods
	desired    int             // nodes that are to run a pod
	candidates []string        // nodes whose old pod is available
	unwanted   []string        // available pods on nodes that should not run any
	extra      int             // nodes with a new pod that is not available yet
	available  int             // nodes with an available pod
}

// beside creates new pods beside old ones: wherever the old one is not available, and elsewhere on at most s.most nodes
// at a time. Old pods go once the new one is available, and those on nodes that should not run any once there are enough
// available ones without them.
func (v view) beside(there byNode, s surging) (plan, error) {
	for _, node := range slices.Sorted(maps.Keys(there)) {
		young, old, ok := v.pair(there[node])
		if !ok { // for manage to see to
			s.extra++
			continue
		}
		if first := firstOf(old, young); first != nil && v.available(first) {
			s.available++
		}
		switch {
		case old == nil:
		case young == nil:
			if err := s.begin(node, old, v.available(old)); err != nil {
				return plan{}, err
			}
		case v.available(young):
			s.remove = append(s.remove, old.Name)
		default:
			s.extra++
		}
	}
	dispensable := min(max(s.available-s.desired, 0), len(s.unwanted))
	s.remove = append(s.remove, s.unwanted[:dispensable]...)
	left := min(max(s.most-s.extra, 0), len(s.candidates))
	s.create = append(s.create, s.candidates[:left]...)
	return s.plan, nil
}

// begin decides what to do about a node that has only an old pod.
func (s *surging) begin(node string, old *corev1.Pod, available bool) error {
	run, known := s.runs[node]
	switch {
	case !known:
		return fmt.Errorf("couldn't get node for nodeName %q: node %q not found", node, node)
	case !run && available:
		s.unwanted = append(s.unwanted, old.Name)
	case !run:
		s.remove = append(s.remove, old.Name)
	case available:
		s.candidates = append(s.candidates, node)
	default:
		s.create = append(s.create, node)
	}
	return nil
}

func firstOf(a, b *corev1.Pod) *corev1.Pod {
	if a != nil {
		return a
	}
	return b
}
