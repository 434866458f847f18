// Package snapshot writes the content of a storage.Store to a file and restores it.
//
// Write reads a store in use, page by page and all at one revision, while writes go on. It works on every backend and
// holds one page in memory. It fails with storage.ErrCompacted only if more is written meanwhile than the store's
// history holds. WriteFile makes a file atomically. Check reads such a file to its end. Restore does the same before it
// touches the store, which must be empty, and then writes the records in the order in which they were first written.
//
// # Revisions
//
// A store gives records new revisions, so clients that followed the old store must begin again with a list. To make
// sure that they notice, begin the new store at Info.FirstRevision, which lies above anything the old one can have
// reached: memory.Options and wal.Options take it. The first revision of an etcd cannot be set; a new one is behind,
// and clients that go on with an old revision may miss changes. Restored.Behind reports that.
//
// # Content
//
// Keys and values are written as the store's readers see them: below a layer that encrypts, values stay encrypted;
// above it, the file has them in clear. Files are readable by their owner only (mode 0600). Leases are not included: a
// record with a time to live becomes permanent, unless RestoreOptions.TTL gives it a new one. An unreadable record ends
// Write with storage.ErrUnreadable and its key.
//
// # Errors
//
// A file that cannot be used is a *FileError: it names the offset and the reason, and wraps ErrDamaged, ErrForeign or
// ErrVersion. Other errors are those of the store and of the file system.
//
// # Concurrency
//
// The functions may be called concurrently for different files and stores.
package snapshot
