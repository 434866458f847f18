package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

// parentInterval is how often a program checks that the one that started it is still there.
const parentInterval = 200 * time.Millisecond

// withParent returns a context that also ends when the process that started this one ends: tests that are killed leave nothing
// behind. A process whose parent ends gets another one.
func withParent(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(ctx)
	parent := os.Getppid()
	go func() {
		ticker := time.NewTicker(parentInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				if os.Getppid() != parent {
					stop()
				}
			}
		}
	}()
	return ctx, stop
}

// tell returns a function that tells what a program does not do.
func tell(name string) func(format string, args ...any) {
	return func(format string, args ...any) { fmt.Fprintf(os.Stderr, name+": "+format+"\n", args...) }
}
