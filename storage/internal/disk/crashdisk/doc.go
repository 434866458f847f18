// Package crashdisk is a disk.Dir in memory that can crash at any operation. After the restart it has what was synced,
// plus an arbitrary part of what was not. Of unsynced bytes, each sector may be there, missing, torn or garbage, and
// the file's length is arbitrary; of unsynced changes of names, any subset may have happened.
//
// It keeps what file systems and disks do keep: synced bytes stay intact when bytes after them are written, and a
// rename is atomic.
package crashdisk
