// Package lifecycle runs things that live as long as a context: a controller's loop, an informer, a node.
//
// A Runnable blocks while it lives. Group runs many side by side and ends them all when one fails; a cluster, a
// controller manager and a node are groups of groups.
package lifecycle

import (
	"context"
	"sync"
)

// Runnable is anything with a life of its own.
type Runnable interface {
	// Run blocks until the context ends, joins what it started, and returns nil then.
	Run(ctx context.Context) error
}

// Func is a Runnable made of a function.
type Func func(ctx context.Context) error

// Run calls f.
func (f Func) Run(ctx context.Context) error { return f(ctx) }

// Group is a Runnable that runs all the given ones in parallel. When one fails, the context of
// the others ends; Run returns when all have returned, with the first failure. One that returns
// nil before its time stops nobody.
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
