package events

import (
	corev1 "k8s.io/api/core/v1"
)

// Event is a report for users about an object.
type Event struct {
	Regarding corev1.ObjectReference  // the object it is about
	Related   *corev1.ObjectReference // a further object, or nil
	// Type is corev1.EventTypeNormal or corev1.EventTypeWarning.
	Type string
	// Reason is a CamelCase word such as "Scheduled"; Action, if given, is what was attempted.
	Reason  string
	Action  string
	Message string
	// Reporter is who reports it, if not the component of the recorder: one of a scheduler's profiles, for example.
	Reporter string
}

// Recorder takes events. It never blocks and never fails the caller: events beyond what the
// server takes are dropped and counted. Implementations are safe for concurrent use.
type Recorder interface {
	Record(Event)
}

// Func adapts a function to Recorder.
type Func func(Event)

// Record calls f.
func (f Func) Record(e Event) { f(e) }
