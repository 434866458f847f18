// Package clientgo makes client-go's informers and listers of any informer.Source, so that code
// which takes a cache.SharedIndexInformer or a lister works on the registry in process, on
// sources of tests, and over the wire. Package factory below it does the same for code that
// takes an informers.SharedInformerFactory.
//
// An [Informer] does what the documentation of cache.SharedIndexInformer promises, and what
// client-go's own does beyond: the tests run the same scenarios against both and compare what
// handlers are told. Typed listers are made over GetIndexer:
//
//	pods := clientgo.New(source, clientgo.Options{})
//	lister := listers.NewPodLister(pods.GetIndexer())
//
// # What differs
//
//   - Resyncs come at each handler's own period, neither rounded up to the shortest one of the
//     informer nor started anew when it lists again.
//   - A watch that fails is resumed from where it was, so that deletions meanwhile are told as
//     such; only when the history is gone is there a new list, and with it tombstones and an
//     OnUpdate for every object that did not change, as client-go's has after every failure.
//   - Nothing is waited before the first list after a history that is gone, and delays between
//     attempts have no jitter.
//   - Lists come in key order, and handlers are told of lists in key order.
//   - The changes that wait for a slow handler are bounded, see Options.Queue.
//   - A transform that fails on an object of a watch leaves the cache with the state before, as
//     client-go's; one that fails on an object of a list fails the list, also where client-go's
//     leaves the object out because it streams lists.
//   - An index function that fails has the object left out of that index and the error logged,
//     where client-go's panics.
//   - A transform may change the type of an object only to one that is an informer.Object.
//   - A deletion of an object that was never seen is not told.
//   - A WatchErrorHandler is told of errors within a watch, too. Its Reflector has a name and a
//     type description, but was never run.
//
// # Objects
//
// As everywhere in client-go, objects are shared among handlers and listers and must not be
// changed. They are copies of the source's own, made once as they come in, unless Options.Share
// is set: so a careless user does not harm the source, which the registry shares with the API
// server. What comes in by Add and Update of the store is not copied.
//
// # Concurrency
//
// All methods may be called from many goroutines. Each handler has a goroutine of its own, for
// which Run waits.
package clientgo
