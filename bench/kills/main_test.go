package main

import (
	"testing"
	"time"
)

// TestKills is a short form of the proof; make kills is the long one.
func TestKills(t *testing.T) {
	kills := 8
	if testing.Short() {
		kills = 2
	}
	seed := uint64(time.Now().UnixNano())
	count, err := run(t.Context(), t.TempDir(), kills, seed, t.Output())
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	if count.acknowledged == 0 || count.events == 0 || count.resumed < 3*kills {
		t.Errorf("seed %d: too little happened to prove anything: %+v", seed, count)
	}
}
