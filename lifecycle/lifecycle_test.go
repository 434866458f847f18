package lifecycle_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-dev/keelson/lifecycle"
)

func TestGroupStopsAllWhenOneFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := errors.New("failed")
		var ended []string
		waits := lifecycle.Func(func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(time.Second)
			ended = append(ended, "waits")
			return errors.New("because of the other")
		})
		returns := lifecycle.Func(func(context.Context) error { return nil })
		fails := lifecycle.Func(func(context.Context) error { time.Sleep(time.Minute); return failed })
		start := time.Now()
		err := lifecycle.Group(waits, returns, fails).Run(t.Context())
		if !errors.Is(err, failed) || len(ended) != 1 || time.Since(start) != time.Minute+time.Second {
			t.Errorf("Run: %v after %v, ended %v", err, time.Since(start), ended)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		quiet := lifecycle.Func(func(ctx context.Context) error { <-ctx.Done(); return nil })
		if err := lifecycle.Group(quiet, quiet).Run(ctx); err != nil {
			t.Errorf("cancelled: %v", err)
		}
	})
}

func TestEnds(t *testing.T) {
	for name, test := range map[string]struct {
		after time.Duration // the context ends then
		want  bool
		took  time.Duration
	}{
		"has ended":         {0, true, 0},
		"in a moment":       {time.Millisecond, true, time.Millisecond},
		"not because of it": {time.Hour, false, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), test.after)
				defer cancel()
				start := time.Now()
				if got := lifecycle.Ends(ctx); got != test.want || time.Since(start) != test.took {
					t.Errorf("%t after %v, want %t after %v", got, time.Since(start), test.want, test.took)
				}
			})
		})
	}
}
