// Package pause waits for a time or the end of a context.
package pause

import (
	"context"
	"time"
)

// For waits for d, or until the context ends, and then returns the context's error. If d is not positive and the
// context has not ended, it returns at once.
func For(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
