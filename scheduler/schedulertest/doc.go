// Package schedulertest tests plugins against the contracts of package scheduler: deterministic results, from
// any goroutine; no changes to arguments; no panic on pods and nodes without optional fields; scores in range;
// hints that let no pod wait in vain; for scheduler.Local, equal results for pods with equal signatures;
// reservations that can be undone; pods that are bound when their Binder says so.
//
// There is a test for each of the plugins' roles; it tries them on generated clusters. RandomPod and RandomNode
// generate the pods and nodes, for custom tests, too.
package schedulertest
