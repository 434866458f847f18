package encryption_test

import (
	"fmt"
	"testing"

	"github.com/keelson-dev/keelson/internal/etcdtest"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/encryption"
	"github.com/keelson-dev/keelson/storage/etcd"
	"github.com/keelson-dev/keelson/storage/storagetest"
)

// TestContractOverEtcd: leases, compaction and history are those of the store below.
func TestContractOverEtcd(t *testing.T) {
	const buffer = 300
	if testing.Short() {
		t.Skip("starts an etcd")
	}
	c := etcdtest.Start(t, etcdtest.Options{})
	n := 0
	storagetest.Run(t, storagetest.Backend{
		Open: func(t testing.TB) storage.Store {
			n++
			inner, err := etcd.Open(t.Context(), etcd.Config{Endpoints: c.Endpoints()}, etcd.Options{Buffer: buffer, Prefix: fmt.Sprintf("/%d/", n)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := inner.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			})
			s := encryption.New(inner, all(named(t, "a")))
			if _, ok := storage.As[storage.Lessor](s); !ok {
				t.Fatal("the layer over etcd is no Lessor")
			}
			return s
		},
		Forget: func(t testing.TB, s storage.Store) {
			storagetest.ForgetByWriting(2*buffer)(t, s)
			revision, err := s.Revision(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			compactor, ok := storage.As[storage.Compactor](s)
			if !ok {
				t.Fatal("the layer over etcd is no Compactor")
			}
			if err := compactor.Compact(t.Context(), revision); err != nil {
				t.Fatal(err)
			}
		},
	})
}
