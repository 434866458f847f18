package volumes_test

import (
	"context"
	"testing"

	"github.com/keelson-dev/keelson/scheduler/volumes"
)

// TestNothingIsKept: memory is bounded by the pods that are being bound.
func TestNothingIsKept(t *testing.T) {
	run(t, func(t *testing.T, s *server, v *volumes.Volumes) {
		kept := func(want int) {
			t.Helper()
			if got := v.Kept(); got != want {
				t.Errorf("%d are kept, want %d", got, want)
			}
		}
		p := pod("a", "x", "y")
		reserve(t, v, p, "n")()
		kept(0)
		reserve(t, v, p, "n")
		kept(3) // the reservation, the volume of x and the claim y
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := bindLater(ctx, v, p, "n")
		s.bind("x", "d")
		s.volumes.Put(disk("made-for-y", "n"))
		s.bind("y", "made-for-y")
		want(t, "done", returned(done))
		kept(0)
	}, with(claim("x", "local"), claim("y", "made"), disk("d", "n")))
}
