// Package extender asks programs elsewhere about pods, over HTTP, by upstream's protocol of scheduler extenders: which nodes
// can take a pod, how good they are for it, and which of them to preempt on; it can also leave bindings to them.
//
// An Extender is a plugin of a profile, after its other predicates and before its other binders; plugins.DefaultPreemption
// takes those that preempt among its Reviewers:
//
//	e := extender.New(extender.Config{URL: "https://gpu.example/scheduler", Filter: "filter", TLS: config})
//	profile.Plugins = append(profile.Plugins, scheduler.Enabled{Plugin: e, Weight: e.Weight()})
//
// # Errors
//
// A program that cannot be reached, takes too long, answers with more than it was asked about, or names nodes, pods or scores
// that do not exist, fails the attempt with the pod it was asked about, in upstream's words where it has some, unless it is
// Ignorable; what it says of priorities is ignored then, as upstream. A scheduler asks it about one pod at a time, and schedules
// the pods that it is not asked about meanwhile.
//
// # Differences from upstream
//
// Answers are limited in size: to 4 MiB and twice that of the question. Nodes that are not among those in question are
// refused in either form of an answer, and scores beyond 0 to 10 fail the attempt. No proxy is used.
//
// # Concurrency
//
// An Extender may be called from any goroutine.
package extender
