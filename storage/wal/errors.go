package wal

import (
	"errors"
	"fmt"
)

// Errors of Open, and of writes after the disk failed; test them with errors.Is.
var (
	// ErrInUse: another process, or another Store of this one, has the directory open.
	ErrInUse = errors.New("directory in use by another store")
	// ErrForeign: the directory holds files, but no store of this package.
	ErrForeign = errors.New("directory does not hold a keelson store")
	// ErrVersion: the store was written in a format that this version of the package does not know.
	ErrVersion = errors.New("unknown format version")
	// ErrCorrupt: a file of the store is damaged or missing. The error is a *CorruptError.
	ErrCorrupt = errors.New("store is damaged")
	// ErrFailed: the disk failed a write, so the store takes no more of them; it still serves reads. Writes in flight
	// may or may not be there after the next Open.
	ErrFailed = errors.New("store takes no more writes after a disk error; free space or repair the disk, then open it again")
)

// CorruptError says which file of a store is damaged and where. Open has changed nothing.
type CorruptError struct {
	File   string // path
	Offset int64  // of the first byte that cannot be trusted
	Reason string // what is wrong there
}

// Error names the damage and what to do about it.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("%v: %s at byte %d: %s; nothing was changed: restore the directory from a backup, or move it away to start empty",
		ErrCorrupt, e.File, e.Offset, e.Reason)
}

// Is makes errors.Is(err, ErrCorrupt) true.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }
