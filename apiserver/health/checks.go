package health

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Ping is the check that always passes.
func Ping() Check {
	return Check{Name: "ping", Run: func(context.Context) error { return nil }}
}

// errLogBlocked says that a line has not been written to the log.
var errLogBlocked = errors.New("logging blocked")

// Log is the check "log": that writing a line to the log does not block. The line has level debug; the check passes if the
// log does not take that level.
func Log(l *slog.Logger) Check {
	const wait = time.Second
	turn := make(chan struct{}, 1) // its holder is writing
	return Check{Name: "log", Run: func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		select {
		case turn <- struct{}{}:
		case <-ctx.Done():
			return errLogBlocked
		}
		written := make(chan struct{})
		go func() {
			l.DebugContext(ctx, "health check of the log")
			close(written)
			<-turn
		}()
		select {
		case <-written:
			return nil
		case <-ctx.Done():
			return errLogBlocked
		}
	}}
}

// Storage is a check that the storage can be read. probe returns an error if it cannot; it may wait for its context.
func Storage(name string, probe func(ctx context.Context) error) Check {
	const wait = 2 * time.Second // upstream's
	return Check{Name: name, Run: func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		return probe(ctx)
	}}
}

// Synced is the check "informer-sync": that all informers have had their first list. pending names those that have not.
func Synced(pending func() []string) Check {
	return Check{Name: "informer-sync", Boot: true, Run: func(context.Context) error {
		if names := pending(); len(names) > 0 {
			return fmt.Errorf("%d informers not started yet: %v", len(names), names)
		}
		return nil
	}}
}

// errUnfinished says that a step of the start has not finished.
var errUnfinished = errors.New("not finished")

// Started is the check "poststarthook/NAME": that a step of the start has finished.
func Started(name string, done <-chan struct{}) Check {
	return Check{Name: "poststarthook/" + name, Boot: true, Run: func(context.Context) error {
		select {
		case <-done:
			return nil
		default:
			return errUnfinished
		}
	}}
}

// errShutdown says that the server is shutting down.
var errShutdown = errors.New("process is shutting down")

// Shutdown is the readiness check "shutdown": that the server is not shutting down, which closes begun, as of
// apiserver.Drain.Begun.
func Shutdown(begun <-chan struct{}) Check {
	return Check{Name: "shutdown", Run: func(context.Context) error {
		select {
		case <-begun:
			return errShutdown
		default:
			return nil
		}
	}}
}
