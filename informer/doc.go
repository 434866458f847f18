// Package informer keeps typed read caches of API objects up to date and calls handlers for every change.
//
// A [Source] lists and watches one kind. It is all that authorizers, admission plugins, controllers, the scheduler and
// the kubelet know about where state comes from: the registry is one in process, package wire makes one over the
// network, package memory is one for tests, and package informertest checks any of them against the contract.
// Package lag makes a source late, for tests. Packages clientgo and controllerruntime give an informer the form that programs written for those libraries expect.
//
// An [Informer] reads a Source for many readers at once. It lists, then watches from the version of the list. When a
// watch ends, it continues from the last version; when the source no longer has the history, it lists again and
// computes the difference. So a handler misses no change of state and no deletion, although several changes of one
// object may arrive as one.
//
// # Objects are shared
//
// The cache holds and returns the objects that the source returned. To change one, make a deep copy first;
// Options.DetectMutations finds code that does not. [Transform] reduces objects before they get into the cache.
//
// # Concurrency
//
// All methods may be called from many goroutines. Each handler is called for one change at a time, after the cache has
// the change. By default, handlers are called from the goroutine in Run, where a slow one delays the cache and all
// others: such a handler should enqueue a key and return. With Handler.Queue a handler has a goroutine of its own.
// Either way memory is bounded: without a queue nothing is kept for a slow handler, and with one no more than its
// length and two changes of each object.
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
// An index adds 8 to 16 for each value of an object. The rest is the objects as Go values; a transform or metadata
// keeps only the fields that are used.
//
// # Errors
//
// Run retries after any failure of a Source, with a delay that starts at 800 ms, doubles up to 30 s and has no jitter.
// It logs failures and passes them to Options.OnError. It returns nil when its context ends. A panic in a handler ends
// the process: nothing here recovers.
package informer
