package main

import (
	"context"
	"sync"
)

// ending is a context that ends after it was checked a number of times.
type ending struct {
	context.Context

	mu    sync.Mutex
	looks int
	done  chan struct{}
}

// Done implements context.Context.
func (e *ending) Done() <-chan struct{} {
	e.look()
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.channel()
}

// Err implements context.Context.
func (e *ending) Err() error {
	if e.look() {
		return context.Canceled
	}
	return nil
}

func (e *ending) channel() chan struct{} {
	if e.done == nil {
		e.done = make(chan struct{})
	}
	return e.done
}

func (e *ending) look() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.looks--; e.looks == -1 {
		close(e.channel())
	}
	return e.looks < 0
}
