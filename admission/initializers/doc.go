// Package initializers has the admission plugin Initializers, which Kubernetes had until 1.13, and the state of an object's
// initialization, for programs that initialize objects.
//
// An initializer is a program that completes new objects of certain resources, or rejects them, before others see them. The
// plugin writes the names of those that an object waits for into its Annotation; upstream had a field for them in ObjectMeta,
// which is gone. The server hides the object meanwhile. Initializers act one after the other, in the order of the list: each
// takes its own name off (Done), or says why the object is rejected (Reject), in an update for which it needs the verb
// "initialize" on the resource. Whoever has that may also name the initializers of an object that it creates, or none.
//
// # Errors
//
// Those who lack the verb get an admission.ErrForbidden; a list that does not become shorter by its first name, or comes back,
// is an admission.ErrInvalid.
//
// A Plugin is safe for concurrent use.
package initializers
