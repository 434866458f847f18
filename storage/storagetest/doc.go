// Package storagetest is the conformance suite of package storage, for authors of backends: it checks a storage.Store
// against every sentence of the contract, with one client and with several.
//
// # Use
//
// Run it from a test of the backend with a Backend: Open makes an empty store and arranges for its end; Forget makes a
// store forget its history (ForgetByWriting does it where history has a bound). Every check is a subtest; a failing one
// quotes the sentence it is about. Failures returns the same as values, for callers that judge them themselves: this
// package's own test uses it to show that some seventy broken stores are refused.
//
// # What is checked
//
// Writes: preconditions, revisions, exactly one winner among competitors, what a reader sees when the write has
// returned, keys and values of any bytes up to 1 MiB together. Lists: prefixes, pages that stay at one revision during
// writes, any revision in the history, ErrCompacted and ErrFutureRevision. Streams: every change once and in one order,
// from any revision in the history; previous values; reaching a revision that was asked for, by Progress events where
// others write elsewhere; contexts that end, unread streams, and Close. Then a model of the contract judges random
// calls, of one client and of several at once.
//
// storage.Historian, Compactor, Lessor and Refresher are checked in stores that implement them. A store with a method
// Close() error is checked for ErrClosed. StreamBytes in a Backend makes the suite check that bound on memory.
//
// # How to write a backend
//
// Begin with the revisions: one counter for the whole store, incremented together with the append to the history, so
// that a stream that has delivered revision r never has to deliver anything older. Revision must not lag behind an
// acknowledged write of any client: ask the place where writes are decided. A stream reads the history by position
// instead of buffering, or has a bounded buffer and ends with ErrCompacted when that is full. When there is nothing for
// its prefix up to a revision, it sends a Progress event; the checks whose names begin with Progress fail when it does
// so before it has delivered all earlier changes.
//
// Promises beyond the contract (durability, how much history is kept, what happens when the backend's server goes away)
// need tests of their own; see storage/wal for crashes.
//
// # Cost
//
// The suite needs no other packages and takes about a second on a backend in memory. Randomness comes from fixed seeds,
// which a failure names. No verdict depends on the speed of a backend, except through Backend.Patience.
package storagetest
