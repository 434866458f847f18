package wal_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/internal/disk/crashdisk"
	"github.com/keelson-dev/keelson/storage/storagetest"
	"github.com/keelson-dev/keelson/storage/wal"
)

func TestContract(t *testing.T) {
	inMemory := func(_ testing.TB, o wal.Options) (*wal.Store, error) {
		return wal.OpenIn(crashdisk.New(crashdisk.Faults{}), "dir", o)
	}
	for name, c := range map[string]struct {
		open    func(testing.TB, wal.Options) (*wal.Store, error)
		options wal.Options
		bytes   int64 // what history may hold
	}{
		"on disk": {
			func(t testing.TB, o wal.Options) (*wal.Store, error) { return wal.Open(t.TempDir(), o) },
			wal.Options{History: 200, HistoryBytes: 4 << 20, FirstRevision: 1_000_000},
			10 << 20,
		},
		"unsynced": {
			func(t testing.TB, o wal.Options) (*wal.Store, error) { return wal.Open(t.TempDir(), o) },
			wal.Options{History: 200, NoSync: true}, 0,
		},
		"compacting all the time": {inMemory, wal.Options{History: 200, CompactBytes: 1}, 0},
		"history by bytes":        {inMemory, wal.Options{HistoryBytes: 64 << 10}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			storagetest.Run(t, storagetest.Backend{
				Open: func(t testing.TB) storage.Store {
					s, err := c.open(t, c.options)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { s.Close() })
					return s
				},
				Forget:      storagetest.ForgetByWriting(1000),
				StreamBytes: c.bytes,
			})
		})
	}
}

// The store works inside a bubble of virtual time, as in tests of a control plane.
func TestVirtualTime(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s, err := wal.Open(dir, wal.Options{CompactBytes: 1000})
		if err != nil {
			t.Fatal(err)
		}
		stream, err := s.Watch(t.Context(), "", 0)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		for i := range 20 {
			time.Sleep(time.Minute)
			fill(t, s, 1)
			if events, err := stream.Next(t.Context()); err != nil || len(events) != 1 {
				t.Fatalf("Next after write %d = %v, %v", i, events, err)
			}
		}
		if passed := time.Since(start); passed != 20*time.Minute {
			t.Errorf("%v passed", passed)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
