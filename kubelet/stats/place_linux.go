package stats

import (
	"io/fs"
	"syscall"
)

func place(info fs.FileInfo) file {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return file{bytes: uint64(info.Size())}
	}
	const block = 512           // the unit of Blocks, whatever the filesystem's own is
	links := uint64(stat.Nlink) //nolint:unconvert // it is narrower on some architectures
	return file{device: stat.Dev, inode: stat.Ino, links: links, bytes: uint64(stat.Blocks) * block}
}
