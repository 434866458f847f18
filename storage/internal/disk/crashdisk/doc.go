// Package crashdisk is a disk.Dir in memory that can crash: at any operation it stops, and what
// comes back after the restart is what was synced, plus an arbitrary part of what was not. Of
// unsynced bytes, each sector may be there, missing, torn or garbage, and the file's length may
// be any; of unsynced changes of names, any subset may have happened.
//
// It keeps what file systems and disks do keep: synced bytes stay intact when bytes after them
// are written, and a rename happens whole or not at all.
package crashdisk
