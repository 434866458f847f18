package etcd_test

import (
	"testing"

	"github.com/keelson-dev/keelson/storage/etcd"
)

func openStore(t *testing.T, endpoint string) *etcd.Store {
	t.Helper()
	store, err := etcd.Open(t.Context(), etcd.Config{Endpoints: []string{endpoint}}, etcd.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return store
}
