package etcd_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/keelson-dev/keelson/internal/etcdtest"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/etcd"
	"github.com/keelson-dev/keelson/storage/storagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// buffer is small, so that Forget comes past it.
const buffer = 300

func open(t testing.TB, c *etcdtest.Cluster, options etcd.Options) *etcd.Store {
	t.Helper()
	s, err := etcd.Open(t.Context(), etcd.Config{Endpoints: c.Endpoints()}, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func forget(t testing.TB, s storage.Store) {
	t.Helper()
	storagetest.ForgetByWriting(2*buffer)(t, s)
	revision, err := s.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.(storage.Compactor).Compact(t.Context(), revision); err != nil {
		t.Fatal(err)
	}
}

func TestStore(t *testing.T) {
	storagetest.Run(t, storagetest.Backend{
		Open: func(t testing.TB) storage.Store {
			return open(t, etcdtest.Start(t, etcdtest.Options{}), etcd.Options{Buffer: buffer})
		},
		Forget: forget,
	})
}
