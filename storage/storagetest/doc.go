// Package storagetest is the conformance suite of package storage, for the author of a backend: it
// holds a storage.Store to every sentence of the contract, on its own and with several clients.
//
// # Use
//
// Run it from a test of the backend with a Backend: Open makes an empty store and arranges for its
// end, Forget makes a store forget its history (ForgetByWriting does it where history has a bound).
// Every check is a subtest; one that fails quotes the sentence it is about. Failures gives the same
// as values, for who wants to judge them: it is how this package's own test shows that each of some
// seventy broken stores is refused.
//
// # What is checked
//
// Writes: who may write, revisions, exactly one winner among competitors, what a reader sees when
// the write has returned, keys and values of any bytes up to 1 MiB together. Lists: prefixes, pages
// that stay at one revision while others write, any revision that is kept, ErrCompacted and
// ErrFutureRevision. Streams: every change once and in one order, from any revision that is kept;
// previous values; the way to a revision that was asked for, with Progress events where others
// write elsewhere; contexts that end, streams that nobody reads, and Close. Then a model of the
// contract judges random calls, of one client and of several at once.
//
// Checks of storage.Historian, Compactor, Lessor and Refresher run for stores that are one. Where a
// store has a method Close() error, it is held to ErrClosed. A Backend that names StreamBytes is
// held to that much memory.
//
// # How to write a backend
//
// Begin with the revisions: one counter for the whole store, which a write takes together with its
// place in the history, so that a stream that has told revision r never has to tell anything older.
// Revision must not lag behind an acknowledged write, of any client: ask the place where writes are
// decided. A stream reads the history by position instead of buffering, or has a bounded buffer and
// ends with ErrCompacted when that is full. When there is nothing for its prefix up to a revision,
// it says so by a Progress event; the checks whose names begin with Progress fail when it says so
// before it told what it had to.
//
// What a backend promises beyond the contract (durability, how much history it keeps, what happens
// when its server goes away) is its own to test; see storage/wal for crashes.
//
// # Cost
//
// The suite needs no other packages and takes about a second on a backend in memory. Randomness
// comes from fixed seeds, which a failure names. No verdict depends on how fast a backend is, short
// of Backend.Patience.
package storagetest
