// Package wal is a storage.Store in a directory: a checksummed write-ahead log with snapshots,
// under an index in memory. The records must fit into memory, as a control plane's do.
//
// # What it promises
//
// A write is acknowledged, and visible to readers, only after it was synced to the log. However
// the process or the machine ends, every acknowledged write is there at the next Open, and of the
// others each is there whole or not at all. Writers that wait at the same time share one sync.
//
// Open cuts off what a crash left of a write that nobody was told about, and logs that it did.
// Any other damage (in the middle of a log, in a snapshot, a missing or foreign file, also the end of
// a log that had been closed in good order) is a *CorruptError that names the file, the
// offset and what to do; Open then changes nothing. Only damage that leaves nothing intact up to the end
// of a log that was not closed cannot be told from a torn write, and is cut off as one. A directory that is open already answers ErrInUse, one that
// holds something else ErrForeign, one written in another format ErrVersion.
//
// When the disk fails a write, that write and all later ones fail with ErrFailed, while reads and
// watches go on. A failed write may or may not be there after the next Open.
//
// # History
//
// While open, the newest changes can be watched and listed from within Options.History and
// Options.HistoryBytes. A restart keeps of that what the log holds: all changes since the newest
// snapshot, previous values included. Revisions before it answer storage.ErrCompacted, and so does a
// watcher's revision when compaction has overtaken it: list again.
//
// # Space
//
// When the log has outgrown both Options.CompactBytes and the last snapshot, a new log is begun,
// a snapshot is written in the background, and the old log is removed. Writers who
// fill the new log twice over wait for the snapshot, so the directory never holds more than two
// snapshots and about four times the larger of the two sizes in logs.
//
// # Concurrency
//
// A Store is safe for concurrent use. Open starts one goroutine, and compaction one more for a
// while; Close waits for both. One process at a time has the directory, guarded by a file lock; file
// systems without working locks and syncs (some network ones) are not for it. It runs on Linux,
// macOS and the BSDs.
//
// # Why a log of its own
//
// See docs/decisions/storage-engine.md for the measurements against Pebble and bbolt.
package wal
