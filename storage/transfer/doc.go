// Package transfer copies the content of one storage.Store into another, of whatever kinds, and
// compares stores.
//
// Copy reads the source page by page at one revision while others go on writing to it, and fills an
// empty store; it holds a page or two in memory. Verify walks two stores in parallel and names the
// keys in which they differ. A copy that is to be complete is made of a source that nobody writes
// to any more; one of a source in use is what that was at Copied.Revision.
//
// What package snapshot says about revisions, encryption, leases and unreadable records holds here,
// too: begin the target above the source's revision (snapshot.Info.FirstRevision), if its kind
// allows it. Records are written in the order of keys, so their new revisions are not in the order
// of the old ones; where that matters, go through a snapshot.
//
// # Errors
//
// ErrNotEmpty and *DifferentError; others are those of the stores.
//
// # Concurrency
//
// The functions may be called concurrently. Nobody else should write to a target while Copy is at
// work.
package transfer
