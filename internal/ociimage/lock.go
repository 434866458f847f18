//go:build unix

package ociimage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/keelson-dev/keelson/internal/pause"
)

// again is how often a lock that another process has is tried.
const again = 50 * time.Millisecond

// lock takes an exclusive lock on a file. It ends with the process at the latest.
func lock(ctx context.Context, path string) (unlock func() error, err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return file.Close, nil
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), file.Close())
		}
		if err := pause.For(ctx, again); err != nil {
			return nil, errors.Join(fmt.Errorf("wait for the lock of %s: %w", path, err), file.Close())
		}
	}
}
