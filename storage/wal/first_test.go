package wal_test

import (
	"errors"
	"testing"

	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/internal/disk/crashdisk"
	"github.com/keelson-dev/keelson/storage/wal"
)

// The first revision of a store is chosen once, and kept.
func TestFirstRevision(t *testing.T) {
	const first = 5_000
	ctx := t.Context()
	d := crashdisk.New(crashdisk.Faults{})
	for life := range int64(4) {
		s, err := wal.OpenIn(d, "dir", wal.Options{FirstRevision: first * (life + 1)})
		if err != nil {
			t.Fatal(err)
		}
		if now, err := s.Revision(ctx); err != nil || now != first+life {
			t.Errorf("life %d: Revision = %d, %v; want %d", life, now, err, first+life)
		}
		if oldest, err := s.Oldest(ctx); err != nil || oldest != first {
			t.Errorf("life %d: Oldest = %d, %v; want %d", life, oldest, err, first)
		}
		if _, err := s.Watch(ctx, "", first-1); !errors.Is(err, storage.ErrCompacted) {
			t.Errorf("life %d: Watch before the first revision = %v, want ErrCompacted", life, err)
		}
		if revision := fill(t, s, 1); revision != first+life+1 {
			t.Errorf("life %d: the write has revision %d, want %d", life, revision, first+life+1)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	// The first log is required even if the store begins at a late revision.
	names, err := d.Names()
	if err != nil {
		t.Fatal(err)
	}
	broken := crashdisk.New(crashdisk.Faults{})
	for _, name := range names {
		if name != "00000000000000005000.snapshot" {
			broken.Replace(name, d.Contents(name))
		}
	}
	if _, err := wal.OpenIn(broken, "dir", wal.Options{FirstRevision: first}); !errors.Is(err, wal.ErrCorrupt) {
		t.Errorf("Open without the first snapshot = %v, want ErrCorrupt", err)
	}
}

// A crash at any moment of initialization leaves a directory that can be initialized again.
func TestFirstRevisionCrash(t *testing.T) {
	crashes := 0
	for at := range 40 {
		d := crashdisk.New(crashdisk.Faults{})
		d.CrashAfter(at)
		if s, err := wal.OpenIn(d, "dir", wal.Options{FirstRevision: 77}); err == nil {
			_ = s.Close() // the crash may come here
		} else {
			crashes++
		}
		d.Revive()
		s, err := wal.OpenIn(d, "dir", wal.Options{FirstRevision: 77})
		if err != nil {
			t.Fatalf("after a crash at operation %d: %v", at, err)
		}
		if now, err := s.Revision(t.Context()); err != nil || now != 77 {
			t.Errorf("after a crash at operation %d: Revision = %d, %v", at, now, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if crashes < 5 {
		t.Errorf("only %d crashes came in time", crashes)
	}
}
