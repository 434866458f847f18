package controllers

import (
	"context"
	"sync"
)

// RunnableFunc is a Runnable made of a function.
type RunnableFunc func(ctx context.Context) error

// Run calls f.
func (f RunnableFunc) Run(ctx context.Context) error { return f(ctx) }

// Group is a Runnable that runs all the given ones in parallel. When one fails, the context of
// the others ends; Run returns when all have returned, with the first failure. One that returns
// nil before its time stops nobody.
func Group(members ...Runnable) Runnable {
	return RunnableFunc(func(ctx context.Context) error {
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
