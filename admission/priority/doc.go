// Package priority is upstream's admission plugin Priority: it gives a new pod the priority and the preemption
// policy of its PriorityClass, or of the class that is the global default, and ensures that only one class is
// the default.
//
// Pods may not choose a priority other than their class's. Updates that omit what the plugin set keep it.
//
// # Errors
//
// A forbidden field of a pod and an unknown class are an admission.ErrForbidden; an object of another type than
// its resource is an admission.ErrBadRequest. The cache must be filled before the first request, since a class
// that is not in it does not exist.
//
// A Plugin is safe for concurrent use.
package priority
