// Package transfer copies the content of one storage.Store into another, of any kind, and compares stores.
//
// Copy reads the source page by page at one revision while writes go on, and fills an empty store; it holds a page or
// two in memory. Verify walks two stores in parallel and lists the keys in which they differ. For a complete copy, stop
// the writes to the source first; a copy of a source in use is its state at Copied.Revision.
//
// What package snapshot says about revisions, encryption, leases and unreadable records applies here, too: begin the
// target above the source's revision (snapshot.Info.FirstRevision), if its kind allows it. Records are written in the
// order of keys, so their new revisions are not in the order of the old ones; where that matters, go through a
// snapshot.
//
// # Errors
//
// ErrNotEmpty, *DifferentError, and those of the stores.
//
// # Concurrency
//
// The functions may be called concurrently. Nothing else should write to a target during Copy.
package transfer
