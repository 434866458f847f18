package devices_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-dev/keelson/scheduler/devices"
)

// TestNothingIsKept: memory is bounded by the claims that have devices, and the pods that are being bound.
func TestNothingIsKept(t *testing.T) {
	run(t, devices.Options{BindTimeout: time.Minute}, func(t *testing.T, s *server, d *devices.Devices) {
		kept := func(when string, want int) {
			t.Helper()
			synctest.Wait()
			if got := d.Kept(); got != want {
				t.Errorf("%s: %d are kept, want %d", when, got, want)
			}
		}
		s.late()
		s.put(claim("x", count(2)))
		synctest.Wait()
		reserve(t, d, pod("a", "x"), "n")
		done := bindLater(t.Context(), d, pod("a", "x"), "n")
		s.edit("x", ready)
		equal(t, "Bind", returned(done), "done")
		kept("bound", 1)
		s.lag.Hold()
		reserve(t, d, pod("b", "x"), "n")
		if err := d.Bind(t.Context(), pod("b", "x"), "n"); err != nil {
			t.Fatal(err)
		}
		kept("while the cache lags", 2)
		s.claims.Delete("ns", "x") // of its last state, the cache sees nothing
		s.lag.Resume()
		kept("gone", 0)
	})
}
