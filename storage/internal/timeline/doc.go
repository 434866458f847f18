// Package timeline is the state machine that the backends of package storage share: the live records in a copy-on-write
// ordered index, the recent changes in one bounded history, and the rules by which writes are accepted. It does no I/O
// and starts no goroutine.
//
// A list clones the index in constant time and walks the clone, so readers and writers do not wait for each other. A
// list of an older revision undoes the later changes on a clone. All streams read the one history by revision: a stream
// is a prefix and a position, so a slow reader costs no memory, and its stream fails when the history has moved past
// it.
package timeline
