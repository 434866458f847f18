//go:build unix

// For flock; Windows runs no nodes.

package filelock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/keelson-dev/keelson/internal/pause"
)

// Take waits for the lock of the file at path, which it creates if need be, and returns the function to release it.
// waiting, unless nil, is called once if another holder has it. When the context ends first, the error is the
// context's.
func Take(ctx context.Context, path string, waiting func()) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	release := func() { _ = f.Close() } // nothing is written; closing unlocks
	const again = 20 * time.Millisecond // flock cannot wait with a context
	for ; ; waiting = nil {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return release, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			release()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if waiting != nil {
			waiting()
		}
		if err := pause.For(ctx, again); err != nil {
			release()
			return nil, fmt.Errorf("wait for the lock of %s: %w", path, err)
		}
	}
}
