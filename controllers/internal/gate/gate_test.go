package gate_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-dev/keelson/controllers/internal/gate"
)

func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate.Gate
		enter := func() {
			t.Helper()
			if err := g.Enter(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		brief := func() context.Context {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			t.Cleanup(cancel)
			return ctx
		}
		enter()
		enter()
		if err := g.Close(brief()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("closed with two inside: %v", err)
		}
		enter() // it is open
		g.Leave()
		closed := make(chan error, 1)
		go func() { closed <- g.Close(t.Context()) }()
		synctest.Wait()
		if err := g.Enter(brief()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("entered one that is being closed: %v", err)
		}
		g.Leave()
		synctest.Wait()
		select {
		case err := <-closed:
			t.Errorf("closed with one inside: %v", err)
		default:
		}
		g.Leave()
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if err := g.Close(brief()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("closed twice: %v", err)
		}
		entered := make(chan error, 1)
		go func() { entered <- g.Enter(t.Context()) }()
		time.Sleep(time.Hour) // virtual time passes while somebody waits
		g.Open()
		if err := <-entered; err != nil {
			t.Error(err)
		}
	})
}
