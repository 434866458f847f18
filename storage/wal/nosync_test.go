package wal_test

import (
	"errors"
	"testing"

	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/internal/disk/crashdisk"
	"github.com/keelson-dev/keelson/storage/wal"
)

// TestNoSync: nothing is synced, neither at the start nor by writes, compaction and the end, and all is there for the next
// process, also if the first one was killed.
func TestNoSync(t *testing.T) {
	for name, c := range map[string]struct{ unsynced, killed bool }{
		"synced": {}, "closed": {unsynced: true}, "killed": {unsynced: true, killed: true},
	} {
		t.Run(name, func(t *testing.T) {
			syncs := 0
			d := crashdisk.New(crashdisk.Faults{})
			d.Fail(func(operation, _ string) error {
				if operation == "Sync" {
					syncs++
				}
				return nil
			})
			o := wal.Options{NoSync: c.unsynced}
			if !c.killed {
				o.CompactBytes = 1000
			}
			s, err := wal.OpenIn(d, "dir", o)
			if err != nil {
				t.Fatal(err)
			}
			revision := fill(t, s, 100)
			if !c.killed {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			} else {
				defer s.Close() // its goroutines
			}
			if (syncs == 0) != c.unsynced {
				t.Errorf("%d syncs", syncs)
			}
			again, err := wal.OpenIn(d, "dir", o)
			if err != nil {
				t.Fatal(err)
			}
			defer again.Close()
			page, err := again.List(t.Context(), "", storage.ListOptions{})
			if err != nil || len(page.Records) != 100 || page.Revision != revision {
				t.Errorf("the next one has %d records at %d, %v; want 100 at %d", len(page.Records), page.Revision, err, revision)
			}
		})
	}
}

// A directory that takes no file is told of without syncing, too.
func TestNoSyncFails(t *testing.T) {
	broken := errors.New("broken")
	d := crashdisk.New(crashdisk.Faults{})
	d.Fail(func(operation, _ string) error {
		if operation == "Create" {
			return broken
		}
		return nil
	})
	if _, err := wal.OpenIn(d, "dir", wal.Options{NoSync: true}); !errors.Is(err, broken) {
		t.Errorf("open: %v", err)
	}
}
