package cluster_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
)

// fullDisk is a store whose disk may be full.
type fullDisk struct {
	storage.Store
	failed atomic.Bool
}

func (f *fullDisk) Err() error {
	if f.failed.Load() {
		return errors.New("the disk is full")
	}
	return nil
}

// TestHealthOfStorage: probes fail if the store accepts no more writes, so that the server is restarted.
func TestHealthOfStorage(t *testing.T) {
	store := &fullDisk{Store: memory.New(memory.Options{})}
	c, err := cluster.Start(t.Context(), cluster.Options{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, failed := range []bool{false, true} {
		store.failed.Store(failed)
		for _, path := range []string{"/healthz", "/livez", "/readyz"} {
			w := httptest.NewRecorder()
			c.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
			if healthy := w.Code == http.StatusOK; healthy == failed {
				t.Errorf("%s, failed: %v: %d %s", path, failed, w.Code, w.Body)
			}
		}
	}
}
