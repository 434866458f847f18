// Package queue holds the pods that wait for a node: those to try now, those that back off,
// those that wait for something to happen in the cluster, and those that gates hold.
//
// A Queue is a data structure without goroutines, timers or a clock: every method that needs
// the time takes it, and Next tells when to look again. It is for one goroutine at a time. The
// order in which pods come out depends on nothing but the calls made.
//
// It follows upstream's scheduling queue with its defaults: 1 s to 10 s of back-off in windows of
// whole seconds, pods that were refused popped early when nothing else waits (KEP-5142), and
// another try after five minutes, looked for every 30 s, for whatever no event helped.
package queue
