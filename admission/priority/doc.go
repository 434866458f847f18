// Package priority is upstream's admission plugin Priority: it gives a new pod the priority and
// the preemption policy of its PriorityClass, or of the class that is the global default, and
// sees to it that only one class is that.
//
// Pods may not choose a priority other than their class's. Whatever the plugin set is kept in
// updates that leave it out.
//
// # Errors
//
// What a pod may not say, and an unknown class, are an admission.ErrForbidden; an object of
// another type than its resource is an admission.ErrBadRequest. The cache must have been filled
// before the first request, since a class that it does not know does not exist.
//
// A Plugin may be used by many requests at once.
package priority
