// Package storage is the contract between a control plane and the place it keeps its state:
// bytes under string keys, where every change has a revision of its own.
//
// A Store is composed of a Reader (Get, List, Revision), a Writer (Create, Update, Delete, each
// with compare-and-swap on the record's revision) and a Watcher (changes after a revision, in
// order, without gap or duplicate). Code that uses a store takes the part it needs. What the
// bytes mean, and what a key looks like, is the caller's business; the registry keeps encoded
// API objects under keys such as /registry/pods/default/web-0, as upstream does.
//
// # Follow the state
//
// List, then Watch from the revision of the list: together they give the complete state and every change to it. When
// Next or Watch fails with ErrCompacted, start again from a List.
//
// # Errors
//
// Every failure a caller can act on is one of the sentinel errors of this package, possibly wrapped. Any other error
// means that the backend is in trouble; the outcome of a write is then unknown.
//
// # Backends
//
// storage/memory keeps everything in the process, storage/wal in a directory and storage/etcd in an etcd that several
// servers may share. storagetest is the suite that they pass and every other backend should. What only some stores can
// do (leases, compaction, the reach of history) is in interfaces of its own: Lessor, Compactor, Historian, Refresher.
// As finds them, also behind a store that wraps another.
//
// storage/encryption wraps another store and encrypts the values of chosen keys; storage/snapshot writes a store to a
// file and restores it; storage/transfer copies one store to another and compares them; storage/tracing wraps another store
// and continues the traces of those who call it.
//
// # Concurrency
//
// Stores are safe for concurrent use; a Stream is read by one goroutine at a time.
package storage
