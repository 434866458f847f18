package storagetest_test

import (
	"testing"

	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
	"github.com/keelson-dev/keelson/storage/storagetest"
)

// How the test of a backend, here the one in memory, holds it to the contract; t is the test's.
func ExampleRun() {
	contract := func(t *testing.T) {
		storagetest.Run(t, storagetest.Backend{
			Open: func(t testing.TB) storage.Store {
				s := memory.New(memory.Options{History: 500})
				t.Cleanup(func() {
					if err := s.Close(); err != nil {
						t.Error(err)
					}
				})
				return s
			},
			Forget: storagetest.ForgetByWriting(500),
		})
	}
	_ = contract
}
