// Package memory is a storage.Store in the memory of the process, for tests and for control
// planes that need not outlive it. It obeys the whole contract; what it promises about
// durability is nothing.
//
// It starts no goroutine and waits on nothing but its own streams' changes, so it works inside a
// testing/synctest bubble. History is bounded by number and by bytes (Options); older revisions
// answer storage.ErrCompacted. Records live in a copy-on-write index: a list does not hold up a
// writer. Streams share one history and buffer nothing: a reader that falls behind it is cut off
// with storage.ErrCompacted.
//
// The errors are those of package storage.
package memory
