// Package lifecycle runs what lives as long as a context: a controller's loop, an informer, a node.
//
// A Runnable blocks until it ends. Group runs many in parallel and ends them all when one fails; a cluster, a
// controller manager and a node are groups of groups.
package lifecycle

import (
	"context"
	"sync"
	"time"
)

// Runnable is a component with a lifecycle.
type Runnable interface {
	// Run blocks until the context ends, then waits for what it started and returns nil.
	Run(ctx context.Context) error
}

// Func adapts a function to Runnable.
type Func func(ctx context.Context) error

// Run calls f.
func (f Func) Run(ctx context.Context) error { return f(ctx) }

// Group is a Runnable that runs all the given ones in parallel. When one fails, the context of the others ends; Run
// returns when all have returned, with the first failure. One that returns nil early does not end the others.
func Group(members ...Runnable) Runnable {
	return Func(func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var (
			all   sync.WaitGroup
			once  sync.Once
			first error
		)
		for _, member := range members {
			all.Go(func() {
				if err := member.Run(ctx); err != nil {
					once.Do(func() { first = err; cancel() })
				}
			})
		}
		all.Wait()
		return first
	})
}

// ending is how long Ends waits. The contexts of one group end within microseconds of each other.
const ending = time.Second

// Ends reports whether the context has ended or ends within a moment (a second). A Runnable asks when something that it
// uses has stopped: if both stop because the context above them ends, one of them may be told a moment before the other,
// and that is no failure.
func Ends(ctx context.Context) bool {
	timer := time.NewTimer(ending)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return true
	case <-timer.C:
		return ctx.Err() != nil
	}
}
