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
// [Transform] cuts objects down before they get into the cache.
//
// # Concurrency
//
// All methods may be called from many goroutines. Each handler is called for one change at a
// time, after the cache has taken in the change. Handlers are called from the goroutine in Run,
// where a slow one holds up the cache and all others, so that a handler enqueues a key and
// returns; or, with Handler.Queue, from a goroutine of their own. Either way memory is bounded:
// without a queue nothing is kept for a slow handler, and with one no more than its length and
// two changes of each object.
//
// # Memory
//
// Bytes for each of 10,000 pods of 2.2 KB (as JSON), 50 namespaces, on amd64, as measured by
//
//	go test -run xxx -bench Memory -benchtime 1x ./informer/clientgo
//
//	informer in process; the objects are the registry's      100
//	informer over the wire, with objects of its own        6,190
//	the same, metadata only                                2,920
//	clientgo in process, objects shared                      136
//	clientgo in process, copies                            5,260
//	clientgo over the wire                                 6,220
//	the same, cut down to labels, node and phase           2,000
//	client-go's store in process, objects shared             131
//	client-go's informer over the wire, protobuf           6,270
//	client-go's informer over the wire, JSON               7,490
//
// An index adds 8 to 16 for each value that an object has. What remains is the objects as Go has
// them, of which a transform or metadata leaves the parts that somebody reads.
//
// # Errors
//
// Run retries whatever a Source fails with, after a delay that starts at 800 ms, doubles up to
// 30 s and has no jitter, logs it and tells Options.OnError. It returns nil when its context
// ends. A handler that panics ends the process: nothing here recovers.
package informer
