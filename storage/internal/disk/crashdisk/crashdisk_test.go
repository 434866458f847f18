package crashdisk_test

import (
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/storage/internal/disk"
	"github.com/keelson-dev/keelson/storage/internal/disk/crashdisk"
)

func write(t *testing.T, f disk.File, s string) {
	t.Helper()
	if _, err := io.WriteString(f, s); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Synced bytes and names survive every crash; of the rest, sometimes everything and sometimes nothing does.
func TestRestart(t *testing.T) {
	const synced, unsynced = "synced ", "and not"
	seen := map[string]bool{}
	for seed := range uint64(500) {
		d := crashdisk.New(crashdisk.Faults{})
		f, err := d.Create("a")
		must(t, err)
		write(t, f, synced)
		must(t, f.Sync())
		must(t, d.Sync())
		write(t, f, unsynced)
		_, err = d.Create("new")
		must(t, err)
		must(t, d.Rename("a", "b"))

		after := d.Restart(rand.New(rand.NewPCG(seed, 0)))
		if _, err := d.Create("c"); !errors.Is(err, crashdisk.ErrCrashed) {
			t.Errorf("Create on a crashed disk: %v", err)
		}
		names, err := after.Names()
		must(t, err)
		name := "a"
		if slices.Contains(names, "b") {
			name = "b"
		}
		if slices.Contains(names, "a") == slices.Contains(names, "b") {
			t.Fatalf("seed %d: half a rename: %q", seed, names)
		}
		content := string(after.Contents(name))
		if !strings.HasPrefix(content, synced) {
			t.Fatalf("seed %d: synced bytes became %q", seed, content)
		}
		seen[name] = true
		seen["new is there"] = seen["new is there"] || slices.Contains(names, "new")
		seen["new is lost"] = seen["new is lost"] || !slices.Contains(names, "new")
		switch {
		case content == synced:
			seen["all lost"] = true
		case content == synced+unsynced:
			seen["nothing lost"] = true
		case strings.HasPrefix(unsynced, strings.TrimRight(content[len(synced):], "\x00")):
			seen["torn"] = true
		default:
			seen["garbled"] = true
		}
	}
	for _, outcome := range []string{"a", "b", "new is there", "new is lost", "all lost", "nothing lost", "torn", "garbled"} {
		if !seen[outcome] {
			t.Errorf("no crash had the outcome %q", outcome)
		}
	}
}

func TestCrashAfter(t *testing.T) {
	d := crashdisk.New(crashdisk.Faults{})
	d.CrashAfter(2)
	f, err := d.Create("a")
	must(t, err)
	write(t, f, "x")
	if d.Crashed() {
		t.Error("crashed too early")
	}
	if err := f.Sync(); !errors.Is(err, crashdisk.ErrCrashed) || !d.Crashed() {
		t.Errorf("the third operation: %v", err)
	}
	if _, err := d.Names(); !errors.Is(err, crashdisk.ErrCrashed) {
		t.Errorf("reading a crashed disk: %v", err)
	}
}

// Truncated bytes must not come back into a file that was written and synced afterwards.
func TestTruncate(t *testing.T) {
	for seed := range uint64(200) {
		d := crashdisk.New(crashdisk.Faults{})
		f, err := d.Create("a")
		must(t, err)
		write(t, f, "old and long")
		must(t, f.Sync())
		must(t, d.Sync())
		must(t, f.Truncate(3))
		write(t, f, "!")
		must(t, f.Sync())
		if got := string(d.Restart(rand.New(rand.NewPCG(seed, 0))).Contents("a")); got != "old!" {
			t.Fatalf("seed %d: %q", seed, got)
		}
	}
}
