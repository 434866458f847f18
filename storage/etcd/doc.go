// Package etcd is a storage.Store on etcd version 3, which several servers may share.
//
// Keys and values are etcd's own: nothing is added to a value, and a key changes only as far as Options.Prefix and
// Options.Trim say. Revisions are etcd's as well. So what others write below the same keys, kube-apiserver for
// example, is read and followed like what this package writes.
//
// # What differs from a store that nobody else writes to
//
// A revision may change several keys, by a foreign transaction or by a lease whose time is over: the events have the
// same Revision then, and come together from one Next. Revisions that change no key of the store are missing in its
// streams; Progress events tell of them when somebody asked for the Revision.
//
// # Errors
//
// What storage has no sentinel for is an *Error, which names the endpoints and wraps what etcd or the network said.
// After a write that failed so it is unknown whether it happened: the package never repeats a write that etcd may
// have seen. Reads are repeated, on other members, for some seconds. Nothing waits without end if a member loses the
// others: every request demands a member that knows a leader.
//
// # Streams
//
// A stream survives the loss of connections and members without gap and duplicate. One whose reader is slower than
// the changes is cut off with storage.ErrCompacted when Options.Buffer or Options.BufferBytes are full.
//
// # History
//
// etcd keeps all history until somebody compacts it: Compact does, and a Compaction does all the time. The store implements storage.Lessor,
// storage.Compactor and storage.Historian.
//
// # Concurrency
//
// A Store is safe for concurrent use. Its goroutines end with the streams, with requests and with Close.
package etcd
