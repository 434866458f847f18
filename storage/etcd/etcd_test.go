package etcd_test

import (
	"errors"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/keelson-dev/keelson/internal/etcdtest"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/etcd"
	"github.com/keelson-dev/keelson/storage/storagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// buffer is small, so that Forget exceeds it.
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

// wipe deletes everything, and all history.
func wipe(t testing.TB, client *clientv3.Client) {
	t.Helper()
	done, err := client.Delete(t.Context(), "\x00", clientv3.WithFromKey())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Compact(t.Context(), done.Header.Revision); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		t.Fatal(err)
	}
}

// TestStore runs the suite over all keys of an etcd, and over those below a prefix. Everything is deleted before each
// check: a separate etcd for each would take longer.
func TestStore(t *testing.T) {
	for name, options := range map[string]etcd.Options{"all": {Buffer: buffer}, "prefix": {Buffer: buffer, Prefix: "/suite/"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			if name == "prefix" && testing.Short() {
				t.Skip("most of it is the same")
			}
			c := etcdtest.Start(t, etcdtest.Options{})
			client := c.Client(t)
			storagetest.Run(t, storagetest.Backend{
				Open: func(t testing.TB) storage.Store {
					wipe(t, client)
					return open(t, c, options)
				},
				Forget: forget,
			})
		})
	}
}
