// Package publish is an events.Recorder that writes to an API server.
//
// A Publisher takes events into a bounded queue and writes them one after another from the
// goroutine in Run. [New] writes events of core/v1, as upstream's controllers and kubelet do:
// a repetition raises the count of the event that is there, a series of events that differ only
// in their message is combined from the tenth on, and an object about which there is too much
// to say falls silent (25 events at once, then one in five minutes). [NewSeries] writes events of
// events.k8s.io/v1, as upstream's scheduler does: a repetition starts a series, whose count is
// written when it starts, every half hour, and when it has been quiet for six minutes.
//
// # Errors
//
// What the server refuses is dropped. When the server cannot be reached, the event at hand is
// tried every ten seconds, twelve times in all, while others wait in the queue; events that find
// the queue full are dropped, and Dropped counts every event that was never written.
//
// # Concurrency
//
// Record may be called from many goroutines, before, during and after Run.
package publish
