package main

import (
	"slices"
	"testing"
	"time"
)

// TestScale is a small version of the measurement, without limits on time: all questions get the right number of
// objects, in worlds of different sizes, and all watches see all changes.
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
	// Memory is meaningful only for servers in processes of their own; here all share one. What can be checked: no
	// watch has more than one goroutine of the server, besides the test's own.
	if len(r.Figures) != 7 {
		t.Errorf("%d figures", len(r.Figures))
	}
}
