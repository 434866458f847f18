package pause_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-dev/keelson/internal/pause"
)

func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		for _, step := range []struct {
			wait time.Duration
			want error
			at   time.Duration
		}{
			{2 * time.Second, nil, 2 * time.Second},
			{0, nil, 2 * time.Second},
			{-time.Second, nil, 2 * time.Second},
			{time.Hour, context.DeadlineExceeded, 3 * time.Second},
			{0, context.DeadlineExceeded, 3 * time.Second},
		} {
			if err := pause.For(ctx, step.wait); !errors.Is(err, step.want) || time.Since(start) != step.at {
				t.Errorf("For(%v) = %v at %v, want %v at %v", step.wait, err, time.Since(start), step.want, step.at)
			}
		}
	})
}
