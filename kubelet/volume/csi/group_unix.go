//go:build unix

package csi

import (
	"io/fs"
	"syscall"
)

func groupOf(info fs.FileInfo) int {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Gid)
	}
	return -1
}
