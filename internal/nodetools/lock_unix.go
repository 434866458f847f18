//go:build unix

// For flock; Windows runs no nodes.

package nodetools

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// lock takes the file's lock, which the kernel gives back when the process ends in whatever way.
func lock(ctx context.Context, path string, progress func(string)) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	poll := time.NewTicker(100 * time.Millisecond) // flock cannot be waited for with a context
	defer poll.Stop()
	for told := false; ; told = true {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil // closing unlocks
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			_ = f.Close() // nothing was written
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if !told {
			progress("waiting for another process that installs the tools")
		}
		select {
		case <-ctx.Done():
			_ = f.Close() // nothing was written
			return nil, fmt.Errorf("wait for another process that installs the tools: %w", ctx.Err())
		case <-poll.C:
		}
	}
}
