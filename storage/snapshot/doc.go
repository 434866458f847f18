// Package snapshot keeps the content of a storage.Store in a file, and brings it back.
//
// Write reads a store that is in use, page by page and all at one revision, while others go on
// writing; it works on every backend, and holds one page in memory. Only where more is written
// meanwhile than the store keeps history does it end, with storage.ErrCompacted. WriteFile makes a
// file of it that is whole or not there, whatever happens in between. Check reads such a file to
// its end. Restore does the same before it touches the store, which must be empty, and then writes
// the records in the order in which they had been written.
//
// # Revisions
//
// A store gives records new revisions, so clients that had followed the old store must begin again
// with a list. To make sure that they notice, begin the new store at Info.FirstRevision, which lies
// above whatever the old one can have reached: memory.Options and wal.Options take it. An etcd
// cannot be told; a new one is behind, and clients that go on with an old revision may miss
// changes. Restored.Behind says so.
//
// # What is in it
//
// Keys and values as the store's readers see them: below a layer that encrypts, values stay
// encrypted; above it, the file has them in clear. Files are made for their owner alone (mode
// 0600). Leases are not in it: a record that had a time to live stays, unless RestoreOptions.TTL
// gives it a new one. A record that is unreadable ends Write with storage.ErrUnreadable and its
// key.
//
// # Errors
//
// A file that cannot be used is a *FileError: it names the byte and the reason, and is one of
// ErrDamaged, ErrForeign and ErrVersion. Other errors are those of the store and of the file
// system.
//
// # Concurrency
//
// The functions may be called concurrently for different files and stores.
package snapshot
