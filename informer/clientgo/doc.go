// Package clientgo makes client-go's informers and listers from any informer.Source, so that code which takes a
// cache.SharedIndexInformer or a lister works on the registry in process, on sources of tests, and over the wire.
// Package factory below it does the same for code that takes an informers.SharedInformerFactory.
//
// An [Informer] does what the documentation of cache.SharedIndexInformer promises, and also what client-go's own does
// beyond it: the tests run the same scenarios against both and compare what handlers receive. Make typed listers from
// GetIndexer:
//
//	pods := clientgo.New(source, clientgo.Options{})
//	lister := listers.NewPodLister(pods.GetIndexer())
//
// # Differences
//
//   - Resyncs come at each handler's own period, neither rounded up to the informer's shortest one nor restarted by a
//     new list.
//   - A failed watch is resumed where it ended, so that deletions in between are reported as such. Only when the
//     history is gone is there a new list, and with it tombstones and an OnUpdate for every unchanged object, as client-go
//     has after every failure.
//   - The first list after expired history starts without delay, and delays between attempts have no jitter.
//   - Lists come in key order, and handlers see the objects of a list in key order.
//   - The changes that wait for a slow handler are bounded, see Options.Queue.
//   - A transform that fails on an object of a watch leaves the cache unchanged, as with client-go. One that fails on
//     an object of a list fails the list, also where client-go skips the object because it streams lists.
//   - If an index function fails, the object is left out of that index and the error is logged; client-go panics.
//   - A transform may change the type of an object only to one that is an informer.Object.
//   - The deletion of an object that was never seen is not reported.
//   - A WatchErrorHandler also receives errors within a watch. Its Reflector has a name and a type description, but was
//     never run.
//
// # Objects
//
// As everywhere in client-go, objects are shared among handlers and listers and must not be changed. They are copies of
// the source's own, made once on receipt, unless Options.Share is set: so a careless user does not harm the source,
// which the registry shares with the API server. Objects added by the store's Add and Update are not copied.
//
// # Concurrency
//
// All methods may be called from many goroutines. Each handler has a goroutine of its own, for
// which Run waits.
package clientgo
