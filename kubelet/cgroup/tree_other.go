//go:build !linux

// Only Linux has cgroups; elsewhere New fails, but code that uses a Tree compiles.

package cgroup

import (
	"log/slog"
	"syscall"
)

func detect(string, *slog.Logger) (layout, error) { return nil, ErrUnsupported }

func kill([]string) {}

func pageSizes() map[string]int64 { return nil }

func removeDirectory(dir string) error { return syscall.Rmdir(dir) }
