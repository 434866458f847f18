// Package etcd is a storage.Store on etcd version 3, which several servers may share.
//
// Keys and values are etcd's own: nothing is added to a value, and a key changes only as Options.Prefix and
// Options.Trim say. Revisions are etcd's as well. So what other programs, such as kube-apiserver, write below the same
// keys can be read and watched like what this package writes.
//
// # How it differs from a store with a single writer
//
// One revision may change several keys, through a transaction of another program or an expired lease: the events then
// have the same Revision and come together from one Next. Streams skip revisions that change no key of the store;
// Progress events cover them when a caller has asked for the Revision.
//
// # Errors
//
// A failure for which storage has no sentinel is an *Error, which names the endpoints and wraps what etcd or the
// network said. After a failed write it is unknown whether the write happened: the package never repeats a write that
// etcd may have seen. Reads are repeated, on other members, for some seconds. No request hangs on a member that has
// lost the others: every request requires a member that knows a leader.
//
// # Streams
//
// A stream survives the loss of connections and members without gap or duplicate. If its reader is slower than the
// changes, it ends with storage.ErrCompacted when Options.Buffer or Options.BufferBytes is full.
//
// # History
//
// etcd keeps all history until it is compacted: once by Compact, periodically by a Compaction. The store implements
// storage.Lessor, storage.Compactor and storage.Historian.
//
// # Concurrency
//
// A Store is safe for concurrent use. Its goroutines end with their streams and requests, and with Close.
package etcd
