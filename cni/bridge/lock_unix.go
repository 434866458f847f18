//go:build unix

package bridge

import (
	"os"
	"syscall"
)

// tryLock takes the lock of host-local; closing the file releases it.
func tryLock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
