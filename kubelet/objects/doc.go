// Package objects keeps the configmaps and secrets that the pods of one node refer to, and no
// others: a node may read each of these by its name, and nothing else.
//
// What volumes refer to is watched, one watch for each object whatever the number of pods, so
// that a change reaches the pods at once; immutable objects are watched no further. What only variables and image pulls
// refer to is read when it is needed. Reading is never behind in one respect: what
// is said not to be there was asked for just now. While the server cannot be reached the last
// known state of an object is good enough.
//
// # Errors and concurrency
//
// Reads fail with the errors of k8s.io/apimachinery/pkg/api/errors. A Cache is safe for concurrent
// use; its goroutines are Run's, one for each object that is watched. Memory is what the
// registered pods refer to. Objects are shared: readers never change them.
package objects
