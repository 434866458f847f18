// Package publish is an events.Recorder that writes to an API server.
//
// A Publisher takes events into a bounded queue and writes them in order from the goroutine in Run. [New] writes events
// of core/v1, as upstream's controllers and kubelet do: a repetition raises the count of the existing event, events
// that differ only in their message are combined from the tenth on, and the events of each object are rate-limited (25
// at once, then one in five minutes). [NewSeries] writes events of events.k8s.io/v1, as upstream's scheduler does: a
// repetition starts a series, whose count is written when it starts, every half hour, and after six quiet minutes.
// written when it starts, every half hour, and when it has been quiet for six minutes.
//
// # Errors
//
// An event that the server refuses is dropped. When the server cannot be reached, the current event is tried every ten
// seconds, twelve times in all, while others wait in the queue. Events that find the queue full are dropped. Dropped
// counts every event that was never written.
//
// # Concurrency
//
// Record may be called from many goroutines, before, during and after Run.
package publish
