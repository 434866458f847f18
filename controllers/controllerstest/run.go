package controllerstest

import (
	"testing"

	"github.com/keelson-dev/keelson/lifecycle"
)

// Go runs the code under test, possibly with a Node beside it, until the test ends: as a lifecycle.Group, with the
// test's context. The test fails if one of them does, and waits at its end until all have returned.
func Go(t testing.TB, all ...lifecycle.Runnable) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- lifecycle.Group(all...).Run(t.Context()) }()
	t.Cleanup(func() {
		if err := <-done; err != nil {
			t.Errorf("what was run until the end of the test: %v", err)
		}
	})
}
