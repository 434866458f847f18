package soak

import (
	"errors"
	"fmt"
	"testing"

	"github.com/keelson-dev/keelson/internal/linear"
	"github.com/keelson-dev/keelson/storage/wal"
	"github.com/keelson-dev/keelson/storage/wal/waltest"
)

// soak.json has the number of violations that were found.
func TestViolationsAreCounted(t *testing.T) {
	found := errors.Join(
		fmt.Errorf("disk 1: %w\nthe history is elsewhere", &linear.Violation{Problems: []string{"a", "b", "c"}}),
		fmt.Errorf("disk 2: %w", &wal.CorruptError{}),
		fmt.Errorf("%w: the watcher never came to a revision", linear.ErrViolated),
		errors.New("a machine that was too slow"),
	)
	s := soak{}
	s.failed = s.try(t, "a scenario", 1, func() (figures, error) { return figures{Points: 3}, found })
	if !errors.Is(s.failed, linear.ErrViolated) {
		t.Fatalf("try: %v", s.failed)
	}
	if s.total.Points != 3 {
		t.Error("what was done before is not counted")
	}
	for _, f := range s.result().Figures {
		if f.What == "violations" && f.Value != 5 {
			t.Errorf("%g violations, want 3 + 1 + 1", f.Value)
		}
	}
	if n := violations(nil); n != 0 {
		t.Errorf("%d violations of nothing", n)
	}
}

// A store that loses synced data causes violations that are counted.
func TestViolationsOfABrokenDisk(t *testing.T) {
	for seed := range uint64(2) {
		if _, err := lives(t.Context(), seed, waltest.Options{IgnoreSync: true}); violations(err) == 0 {
			t.Errorf("seed %d: none counted of %v", seed, err)
		}
	}
}
