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
