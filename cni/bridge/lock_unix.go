//go:build unix

package bridge

import (
	"os"
	"syscall"
)

// tryLock takes the lock that host-local takes; closing the file gives it back.
func tryLock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
