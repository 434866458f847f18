// Package scheduler chooses nodes for pods, as kube-scheduler does, in parts that can be used on their own.
//
// A Predicate decides whether a node can take a pod, a Priority how good the node is for it; they are
// interfaces of a name and one method. A Profile is a list of such plugins. Profile.Schedule takes a pod and a
// Snapshot of the cluster and returns a Decision, without any I/O; the Decision has, for each node, the plugin
// that refused it and the reason, or every score, and prints as a table. A State follows nodes and pods and
// returns snapshots; a snapshot returns a State again, for what-if questions. A Planner decides like a Profile,
// but caches the results for similar pods on nodes that have not changed.
//
// A Scheduler is the loop around these parts: it reads pods and nodes from informers, and keeps pending pods in
// a queue (package queue). When a pod has a node, the profile's other plugins follow: a Reserver reserves what
// else the pod needs, a Permitter may delay it, a PreBinder prepares its binding, a Binder binds it and a
// PostBinder is called afterwards; a failure on the way is undone, and the pod waits again. When no node fits,
// a Preemptor may make room: it names pods to remove, and the scheduler removes them while others are scheduled.
//
// Package plugins has the plugins of upstream's default profile, package volumes what those about volumes know, package
// devices which devices are free for resource claims, and package groups what those know that place pods near each other or
// apart; package budgets knows which pods may be preempted. Package schedulerconfig reads profiles from upstream's
// configuration files, and package extender asks programs elsewhere. Package decisions keeps the last decisions, and
// package whatif answers what would happen if the cluster were another. Package schedulertest tests other plugins against
// the same contracts, and package signature makes them as fast.
//
// # Differences from upstream
//
// Verdicts, scores, messages, reasons, events and back-off are upstream's (v1.37, default feature gates), with
// these differences: all nodes are considered, not a sample; a seed, not chance, chooses between nodes of equal
// total, where the search for nodes to preempt on begins, and between those that cost the same; a pod whose victims
// could not be removed is retried after a back-off rather than at once; pods that are deleted or bound when their
// binding fails get neither an event nor a status patch; a pod is not retried because of the condition that the
// scheduler itself wrote.
//
// # Errors
//
// A Decision's error is a *FitError or ErrNoNodes if the pod must wait, and anything else if a predicate or
// priority failed. New and Profile.Validate fail with ErrProfile.
//
// # Concurrency
//
// Profiles, snapshots and decisions do not change and may be shared. A State and a Planner must be used by one
// goroutine at a time. A Scheduler's methods may be called from any goroutine.
package scheduler
