// Package schedulertest holds predicates and priorities to what package scheduler demands of
// them: the same answer each time, from any goroutine; nothing changed; no panic on pods and
// nodes that leave out what can be left out; scores in range; hints that let no pod wait in
// vain; and, for scheduler.Local, equal answers for pods of equal signature.
//
// TestPredicate and TestPriority try them on generated clusters. RandomPod and RandomNode make
// the pods and nodes, for tests of one's own.
package schedulertest
