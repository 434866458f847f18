// Package queue holds pending pods: those to try now, those in back-off, those that wait for an event in the
// cluster, and those held by gates.
//
// A Queue is a data structure without goroutines, timers or a clock: methods take the time as an argument, and
// Next returns when to call Pop again. It must be used by one goroutine at a time. The order in which pods are
// popped depends only on the calls made.
//
// It follows upstream's scheduling queue with its defaults: 1 s to 10 s of back-off in windows of whole
// seconds, refused pods popped early if nothing else is active (KEP-5142), and a retry after five minutes,
// checked every 30 s, for pods that no event helped.
package queue
