// Package runtimeclass is upstream's admission plugin RuntimeClass: it refuses new pods whose class does not
// exist, gives the others the overhead, node selector and tolerations of their class, and refuses any other
// overhead.
//
// # Errors
//
// A conflict with the class and an unknown class are an admission.ErrForbidden; an object of another type than
// its resource is an admission.ErrBadRequest. The cache must be filled before the first request, since a class
// that is not in it does not exist. Without a cache there are no classes.
//
// A Plugin is safe for concurrent use.
package runtimeclass
