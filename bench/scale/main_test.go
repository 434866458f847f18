package main

import (
	"slices"
	"testing"
	"time"
)

// TestScale is a small form of the measurement, without verdicts about time: all questions are answered with
// the objects that there are, in worlds of different sizes, and all watches hear of all changes.
func TestScale(t *testing.T) {
	o := options{
		pods: []int{1000, 2000}, rounds: 2, changes: 64, watchers: "3x20", idle: "3x20", seed: uint64(time.Now().UnixNano()),
		start: asGoroutine, progress: t.Output(),
	}
	r, err := run(t.Context(), o)
	if err != nil {
		t.Fatalf("seed %d: %v", o.seed, err)
	}
	for _, row := range r.Growth.Rows {
		if len(row.Values) != len(o.pods) || slices.Min(row.Values) <= 0 && row.Unit != "kB" {
			t.Errorf("%s: %v", row.What, row.Values)
		}
	}
	for _, f := range r.Figures {
		t.Logf("%s: %.2f %s", f.What, f.Value, f.Unit)
	}
	// Memory of servers in other processes is what counts; here there is one for all. What can be held to: no
	// watch has more than a goroutine of the server's, besides the test's own.
	if len(r.Figures) != 7 {
		t.Errorf("%d figures", len(r.Figures))
	}
}
