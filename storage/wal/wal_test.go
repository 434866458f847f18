package wal_test

import (
	"testing"

	"github.com/keelson-dev/keelson/internal/depcheck"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/storagetest"
	"github.com/keelson-dev/keelson/storage/wal"
)

func TestContract(t *testing.T) {
	for name, options := range map[string]wal.Options{
		"one log":          {History: 200},
		"compacting":       {History: 200, CompactBytes: 1000},
		"history by bytes": {HistoryBytes: 64 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			storagetest.Run(t, storagetest.Backend{
				Open: func(t testing.TB) storage.Store {
					s, err := wal.Open(t.TempDir(), options)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { s.Close() })
					return s
				},
				Forget: storagetest.ForgetByWriting(1000),
			})
		})
	}
}

func TestClosure(t *testing.T) {
	depcheck.AtMost(t, "storage/wal", 1)
	depcheck.Siblings(t, "storage/wal", "storage", "storage/internal/timeline", "storage/internal/disk")
}
