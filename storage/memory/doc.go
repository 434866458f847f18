// Package memory is a storage.Store in the memory of the process, for tests and for control planes that need not
// outlive it. It obeys the whole contract, without durability.
//
// It starts no goroutine and waits only for changes to its own streams, so it works inside a testing/synctest bubble.
// History is bounded by number and by bytes (Options); older revisions fail with storage.ErrCompacted. Records live in
// a copy-on-write index: a list does not block a writer. Streams share one history and buffer nothing: a reader that
// falls behind it gets storage.ErrCompacted.
//
// The errors are those of package storage.
package memory
