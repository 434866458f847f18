// Package objects caches the config maps and secrets that the pods of one node refer to, and no others: a node may read
// only these, each by name.
//
// Objects that volumes refer to are watched, with one watch per object whatever the number of pods, so changes reach
// the pods at once; the watch of an immutable object ends. Objects that only variables and image pulls refer to are
// read when needed. Reads may return cached state, with one exception: before an object is reported missing, the server
// is always asked. While the server is unreachable, reads return the last known state.
//
// # Errors and concurrency
//
// Reads fail with the errors of k8s.io/apimachinery/pkg/api/errors. A Cache is safe for concurrent use; its goroutines
// belong to Run, one for each watched object. It holds only what the registered pods refer to. Objects are shared:
// readers must not modify them.
package objects
