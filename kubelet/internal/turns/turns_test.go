package turns_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/keelson-dev/keelson/kubelet/internal/turns"
)

// TestTurns: work on one thing is one after the other, and on others at the same time.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all turns.Turns[string]
		first, err := all.Lock(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		other, err := all.Lock(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		other()
		running := 0
		for range 3 {
			go func() {
				unlock, err := all.Lock(t.Context(), "a")
				if err != nil {
					t.Error(err)
					return
				}
				running++
				if running != 1 {
					t.Errorf("%d have the turn", running)
				}
				running--
				unlock()
			}()
		}
		given, cancel := context.WithCancel(t.Context())
		up := make(chan error, 1)
		go func() {
			_, err := all.Lock(given, "a")
			up <- err
		}()
		synctest.Wait()
		if running != 0 {
			t.Error("who waits has the turn")
		}
		cancel()
		if err := <-up; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		// Whoever gives up takes nobody's turn.
		late := make(chan func(), 1)
		go func() {
			unlock, err := all.Lock(t.Context(), "a")
			if err != nil {
				t.Error(err)
			}
			late <- unlock
		}()
		synctest.Wait()
		select {
		case <-late:
			t.Fatal("who comes late has the turn of the first")
		default:
		}
		first()
		(<-late)()
		synctest.Wait()
		last, err := all.Lock(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if all.Len() != 1 {
			t.Errorf("%d things are remembered", all.Len())
		}
		last()
		if all.Len() != 0 {
			t.Errorf("%d things are remembered that nobody works on", all.Len())
		}
	})
}

// TestNext: a thing that nobody works on any more can be worked on again, by one at a time.
func TestNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all turns.Turns[int]
		for range 3 {
			unlock, err := all.Lock(t.Context(), 1)
			if err != nil {
				t.Fatal(err)
			}
			got := make(chan func(), 1)
			go func() {
				next, err := all.Lock(t.Context(), 1)
				if err != nil {
					t.Error(err)
				}
				got <- next
			}()
			synctest.Wait()
			if len(got) != 0 {
				t.Fatal("two have the turn")
			}
			unlock()
			(<-got)()
		}
	})
}
