// Package pause waits in a way that a context can end.
package pause

import (
	"context"
	"time"
)

// For waits for d, or until the context ends, and then returns the context's error. It does not
// wait at all when d is not positive and the context lives.
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
