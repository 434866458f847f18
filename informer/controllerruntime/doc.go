// Package controllerruntime makes a cache.Cache of controller-runtime out of any informer.Source, so
// that a manager, its clients and its controllers read the registry in process, without a connection
// and without decoding an object once more.
//
// A Cache is asked for a kind in one of three forms: as the Go type of its scheme, as
// *unstructured.Unstructured, or as *metav1.PartialObjectMetadata. Each form of each kind that somebody
// asks for gets an informer of its own, over the source that an Opener makes. Give it to a manager by
// manager.Options.NewCache.
//
// What a Cache answers is what controller-runtime's own cache does; the tests run the same scenario
// against both. It differs in that lists come in key order, and in that there is one cache for all
// namespaces: a selection of namespaces or of objects is the Opener's to make.
//
// # Objects
//
// Get and List return copies unless the caller, or Options.UnsafeDisableDeepCopy, asks for the cached
// objects themselves. Handlers of GetInformer's informers get the cached objects, which must not be
// changed. They are copies of the source's unless Options.Share is set.
//
// # Errors
//
// As controller-runtime's: *cache.ErrCacheNotStarted before Start, *cache.ErrResourceNotCached with
// Options.ReaderFailOnMissingInformer, API errors for what is not there and for time-outs.
//
// # Concurrency
//
// All methods may be called from many goroutines. Start blocks, and returns when all informers
// have ended.
package controllerruntime
