// Package events is how components report what they did with an object: a [Recorder] takes an [Event] and returns at
// once.
//
// Package publish below writes events to an API server, counting repetitions as upstream does. In a test, [Func]
// collects them and [Discard] drops them; [About] makes the reference to the event's object.
//
// A Recorder never blocks and never fails, so there are no errors to handle. It may be used by many goroutines.
package events
