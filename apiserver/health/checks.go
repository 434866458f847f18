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

// errLogBlocked: a line for the log has not got through.
var errLogBlocked = errors.New("logging blocked")

// Log is the check "log": that a line for the log is not held up. The line is of level debug; what
// does not take that passes.
func Log(l *slog.Logger) Check {
	const wait = time.Second
	turn := make(chan struct{}, 1) // who holds it is writing
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

// Storage is a check that state can be read: probe returns an error if it cannot, or waits for
// its context.
func Storage(name string, probe func(ctx context.Context) error) Check {
	const wait = 2 * time.Second // upstream's
	return Check{Name: name, Run: func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		return probe(ctx)
	}}
}

// Synced is the check "informer-sync": that no informer is still waiting for its first list.
// pending names those that are.
func Synced(pending func() []string) Check {
	return Check{Name: "informer-sync", Boot: true, Run: func(context.Context) error {
		if names := pending(); len(names) > 0 {
			return fmt.Errorf("%d informers not started yet: %v", len(names), names)
		}
		return nil
	}}
}

// errUnfinished: a step of the start is not done.
var errUnfinished = errors.New("not finished")

// Started is the check "poststarthook/NAME": that a step of the start is done.
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

// errShutdown: the server takes its leave.
var errShutdown = errors.New("process is shutting down")

// Shutdown is the check "shutdown" of readiness: that the end has not begun, as
// apiserver.Drain.Begun tells.
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
