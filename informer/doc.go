// Package informer keeps typed read caches of API objects up to date and tells handlers about
// every change.
//
// A [Source] lists and watches one kind. It is the only thing that authorizers, admission
// plugins, controllers, the scheduler and the kubelet know of where state comes from: the
// registry is one in process, package wire makes one over the network, package memory is one
// for tests, and package informertest holds any of them to the contract.
//
// An [Informer] reads a Source for many readers at once. It lists, then watches from the
// version of the list; it goes on from the last version when a watch ends, and lists again and
// works out the difference when the source no longer has the history. So a handler misses no
// change of state and no deletion, although it may see several changes of one object as one.
//
// # Objects are shared
//
// The cache holds the objects that the source returned and hands out the same ones. Whoever
// wants to change one makes a deep copy first. Options.DetectMutations finds those who did not.
//
// # Concurrency
//
// All methods may be called from many goroutines. Handlers are called one at a time, from the
// goroutine in Run, after the cache has taken in the change; a slow handler holds up all others,
// so a handler enqueues a key and returns.
//
// # Errors
//
// Run retries whatever a Source fails with, after a delay that starts at 800 ms, doubles up to
// 30 s and has no jitter, and logs it. It returns nil when its context ends.
package informer
