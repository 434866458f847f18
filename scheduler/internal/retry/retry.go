// Package retry retries writes while a server is unwell.
package retry

import (
	"context"
	"errors"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/keelson-dev/keelson/internal/pause"
)

// Unwell reports whether an error means that the server is temporarily unable to serve.
func Unwell(err error) bool {
	return apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) || errors.Is(err, syscall.ECONNREFUSED)
}

// Do calls f up to four times, after pauses of 10, 50 and 250 ms, as long as again is true of its error and the
// context lasts. It returns the last error.
func Do(ctx context.Context, again func(error) bool, f func() error) error {
	wait := 10 * time.Millisecond
	for tries := 1; ; tries++ {
		err := f()
		if err == nil || tries == 4 || !again(err) {
			return err
		}
		_ = pause.For(ctx, wait)
		if ctx.Err() != nil {
			return err
		}
		wait *= 5
	}
}
