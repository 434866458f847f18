//go:build !linux

// Where the blocks of files are not known, sizes stand for them; nodes run on Linux.

package stats

import "io/fs"

func place(info fs.FileInfo) file { return file{bytes: uint64(info.Size())} }
