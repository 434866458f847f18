package plugins

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/budgets"
)

// maxMemories is for how many priorities results are kept, for each kind of pod.
const maxMemories = 4

// memories are what is known about pods that differ by priority only.
type memories map[int32]*memory

// memory is the results for pods of one priority, by the place of the node in the snapshot. Preemption changes one node,
// so that the next pod has the others' results ready.
type memory struct {
	budgets *budgets.Set
	results []result
}

// result is what the search found for a node in one state.
type result struct {
	node      *scheduler.NodeInfo
	nominated []*corev1.Pod
	candidate *candidate
	refusal   *scheduler.Refusal
}

// remember returns what is known about such pods, nil if nothing may be kept.
func (s *search) remember() *memory {
	place := s.Memory()
	if place == nil {
		return nil
	}
	all, ok := (*place).(memories)
	if !ok {
		all = memories{}
		*place = all
	}
	m := all[s.priority]
	if nodes := len(s.Snapshot().Nodes()); m == nil || len(m.results) != nodes || m.budgets != s.budgets {
		if len(all) >= maxMemories {
			clear(all)
		}
		m = &memory{budgets: s.budgets, results: make([]result, nodes)}
		all[s.priority] = m
	}
	return m
}

// lookup returns what is known about a node, by its place, or finds it out.
func (s *search) lookup(m *memory, i int) (*candidate, *scheduler.Refusal) {
	node := s.Snapshot().Nodes()[i]
	if m == nil {
		return s.candidate(node)
	}
	nominated := s.Snapshot().Nominated(node.Name)
	if slices.ContainsFunc(nominated, func(p *corev1.Pod) bool { return p.UID == s.Pod().UID }) {
		return s.candidate(node) // the others have one competitor more
	}
	known := &m.results[i]
	if known.node == node && sameSlice(known.nominated, nominated) {
		return known.candidate, known.refusal
	}
	c, refusal := s.candidate(node)
	if (refusal == nil || refusal.Err == nil) && !s.young {
		*known = result{node, nominated, c, refusal}
	}
	return c, refusal
}

// sameSlice reports whether two slices that do not change are one.
func sameSlice[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
