// Package wal is a storage.Store in a directory: a checksummed write-ahead log with snapshots, and an index in memory.
// All records must fit into memory, as those of a control plane do.
//
// # Durability
//
// A write is acknowledged, and visible to readers, only after it was synced to the log. However the process or the
// machine ends, every acknowledged write is there at the next Open, and every other write is there completely or not at
// all. Concurrent writers share one sync. With Options.NoSync this holds for the end of the process alone.
//
// Open truncates what a crash left of an unacknowledged write, and logs that. Any other damage (in the middle of a log,
// in a snapshot, a missing or foreign file, also at the end of a log that was closed properly) is a *CorruptError that
// names the file, the offset and what to do; Open then changes nothing. One kind of damage cannot be distinguished from
// a torn write, and is truncated like one: damage that leaves nothing intact up to the end of a log that was not
// closed. Open fails with ErrInUse for a directory that is already open, with ErrForeign for one that holds something
// else, and with ErrVersion for one in another format.
//
// When the disk fails a write, that write and all later ones fail with ErrFailed, while reads and watches go on. A
// failed write may or may not be there after the next Open.
//
// # History
//
// While the store is open, Options.History and Options.HistoryBytes bound how far back changes can be listed and
// watched from. After a restart, history goes back as far as the log: to the newest snapshot, previous values included.
// Older revisions fail with storage.ErrCompacted, and so does a watch that compaction has overtaken: list again.
//
// # Space
//
// When the log has outgrown both Options.CompactBytes and the last snapshot, the store begins a new log, writes a
// snapshot in the background, and removes the old log. Writers that fill the new log twice over wait for the snapshot,
// so the directory never holds more than two snapshots and about four times the larger of the two sizes in logs.
//
// # Concurrency
//
// A Store is safe for concurrent use. Open starts one goroutine, and compaction a temporary one; Close waits for both.
// A file lock keeps the directory to one process at a time. File systems without working locks and syncs (some network
// ones) are unsuitable. The package runs on Linux, macOS and the BSDs.
//
// Package waltest is a disk for tests whose power can fail.
//
// # Why a log of its own
//
// See docs/decisions/storage-engine.md for the measurements against Pebble and bbolt.
package wal
