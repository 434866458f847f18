// Package scheduler chooses nodes for pods, as kube-scheduler does, in parts that can be used
// on their own.
//
// A Predicate says whether a node can take a pod, a Priority how good it is for it; they are
// interfaces of a name and one method. A Profile is a list of each. Profile.Schedule takes a
// pod and a Snapshot of the cluster and returns a Decision, without any I/O; the Decision says
// for each node who refused it and why, or every score, and prints as a table. A State follows
// nodes and pods and hands out snapshots, and a snapshot gives a State back, to ask what would
// be if. A Planner decides like a Profile, but remembers what pods that are alike were told about
// nodes that did not change.
//
// A Scheduler is the loop around that: it reads pods and nodes from informers, keeps the pods
// that wait in a queue (package queue), and binds them through the API. The predicates and
// priorities of upstream's default profile are in the packages predicates and priorities;
// package schedulertest holds others to the same contract.
//
// # What pods see
//
// Verdicts, scores, messages, reasons, events and back-off are upstream's (v1.37, default feature
// gates), with these differences: all nodes are considered, not a sample; nodes of equal total
// are chosen between by a seed, not by chance; there is no preemption yet, so messages end
// before upstream's "preemption: …"; pods that are gone or bound when their binding fails get
// neither an event nor a status patch; a pod is not tried again because of the condition that
// the scheduler itself wrote.
//
// # Errors
//
// A Decision's error is a *FitError or ErrNoNodes when the pod must wait, and anything else
// when a predicate or priority failed. New and Profile.Validate fail with ErrProfile.
//
// # Concurrency
//
// Profiles, snapshots and decisions do not change and may be shared. A State and a Planner are
// for one goroutine at a time. A Scheduler's methods may be called from any goroutine.
package scheduler
