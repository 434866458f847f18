// Package whatif answers what a scheduler would do if the cluster were another: if more pods came, if nodes went, if there were
// nodes of another shape. Nothing happens in any cluster.
//
// A World is a state of a cluster with the profiles that place pods in it: Place and PlaceAll place pods, with preemption, and
// other methods change nodes and pods. A Fork of a World costs next to nothing; what happens in it stays there until Commit. Fits,
// Without and Missing are questions that are answered in forks.
//
// The state is a scheduler.Snapshot: that of a running Scheduler, or of objects from an API server or from files, which
// package load reads. Equal worlds and questions have equal answers; the seeds of the profiles choose between equal nodes.
//
// # Limits
//
// Pods are placed one at a time, in the order of their priorities, as a Scheduler would place pods that are all pending. Reservers
// and Permitters are not called: two pods may count on the same free volume or device, and no pod waits for a gang. Victims of
// preemption go at once; budgets do not change by that.
//
// # Errors
//
// Those of a scheduler.Decision, about pods that find no node; ErrProfile, ErrHeld, ErrNode and ErrChanged.
//
// # Concurrency
//
// A World and its forks are for one goroutine at a time. For another goroutine, call New with the Snapshot.
package whatif
