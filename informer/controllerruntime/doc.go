// Package controllerruntime makes a cache.Cache of controller-runtime from any informer.Source, so that a manager, its
// clients and its controllers read the registry in process, without a connection and without decoding objects again.
//
// A Cache serves a kind in one of three forms: as the Go type of its scheme, as *unstructured.Unstructured, or as
// *metav1.PartialObjectMetadata. Each requested form of a kind has an informer of its own, over the source that an
// Opener makes. Pass the cache to a manager by manager.Options.NewCache.
//
// A Cache answers like controller-runtime's own; the tests run the same scenario against both. There are two
// differences: lists come in key order, and there is one cache for all namespaces. To select namespaces or objects is
// up to the Opener.
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
// Options.ReaderFailOnMissingInformer, API errors for missing objects and for time-outs.
//
// # Concurrency
//
// All methods may be called from many goroutines. Start blocks, and returns when all informers
// have ended.
package controllerruntime
