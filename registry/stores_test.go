package registry_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/keelson-dev/keelson/internal/etcdtest"
	"github.com/keelson-dev/keelson/registry/registrytest"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/etcd"
	"github.com/keelson-dev/keelson/storage/memory"
	"github.com/keelson-dev/keelson/storage/wal"
)

// TestStores: a registry behaves the same on every store.
func TestStores(t *testing.T) {
	closed := func(t testing.TB, end func() error) {
		t.Cleanup(func() {
			if err := end(); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("memory", func(t *testing.T) {
		registrytest.Stores(t, func(t testing.TB) storage.Store {
			s := memory.New(memory.Options{})
			closed(t, s.Close)
			return s
		})
	})
	t.Run("wal", func(t *testing.T) {
		registrytest.Stores(t, func(t testing.TB) storage.Store {
			s, err := wal.Open(t.TempDir(), wal.Options{})
			if err != nil {
				t.Fatal(err)
			}
			closed(t, s.Close)
			return s
		})
	})
	t.Run("etcd", func(t *testing.T) {
		// One etcd for all: revisions continue across the tests.
		cluster := etcdtest.Start(t, etcdtest.Options{})
		var roots atomic.Int64
		registrytest.Stores(t, func(t testing.TB) storage.Store {
			root := fmt.Sprintf("/%d/", roots.Add(1))
			s, err := etcd.Open(t.Context(), etcd.Config{Endpoints: cluster.Endpoints()}, etcd.Options{Trim: "/", Prefix: root})
			if err != nil {
				t.Fatal(err)
			}
			closed(t, s.Close)
			return s
		})
	})
}
