package main

import (
	"context"
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/lifecycle"
)

// TestInterruptedStart: Ctrl-C during startup is not an error, whatever had started.
func TestInterruptedStart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s, err := parse([]string{"--data-dir", dir, "--listen", "127.0.0.1:0"}, noEnvironment, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for _, after := range []time.Duration{0, time.Millisecond, 3 * time.Millisecond, 10 * time.Millisecond} {
		ctx, cancel := context.WithCancel(t.Context())
		if after == 0 {
			cancel()
		}
		timer := time.AfterFunc(after, cancel)
		if err := run(ctx, s, time.Now(), io.Discard); err != nil {
			t.Errorf("interrupted after %v: %v", after, err)
		}
		timer.Stop()
		cancel()
	}
}

// TestInterruptedBeforeItRan: the context may end before the cluster's goroutine runs.
func TestInterruptedBeforeItRan(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 {
		c, err := cluster.New(cluster.Options{})
		if err != nil {
			t.Fatal(err)
		}
		nothing := lifecycle.Func(func(context.Context) error { return nil })
		if err := together(ctx, c, nothing, func() {}, func() {}); err != nil {
			t.Fatal(err)
		}
	}
}
