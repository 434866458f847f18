package disk

import "io"

// Dir is one directory. Only what was synced survives a crash: a File's bytes by its own Sync, a
// name (created, renamed or removed) by the directory's. Calls for different files may run
// concurrently.
type Dir interface {
	Reader
	Writer
	Namer
}

// Reader reads whole files.
type Reader interface {
	// Names returns the names in the directory in ascending order; none if it does not exist.
	Names() ([]string, error)
	// Open opens a file as it is now for reading.
	Open(name string) (Source, error)
}

// Source is a file open for reading.
type Source interface {
	io.ReaderAt
	io.Closer
	// Size is the length of the file when it was opened.
	Size() int64
}

// Writer opens files for appending.
type Writer interface {
	// Create makes an empty file. It fails if the name is taken.
	Create(name string) (File, error)
	// Append opens an existing file.
	Append(name string) (File, error)
}

// File is a file open for appending. After a failed Write or Sync it is unknown which of the unsynced bytes are in the
// file.
//
//nolint:interfacebloat // what an os.File is here, which all of a log needs
type File interface {
	io.Writer
	io.Closer
	// Sync returns when all bytes written so far survive a crash.
	Sync() error
	// Truncate cuts the file; like written bytes, the cut needs a Sync.
	Truncate(size int64) error
}

// Namer changes names.
type Namer interface {
	// Rename replaces the file at the new name if there is one.
	Rename(from, to string) error
	// Remove deletes a file that is there.
	Remove(name string) error
	// Sync returns when all changes of names so far survive a crash.
	Sync() error
}
