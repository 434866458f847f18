package storagetest_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
	"github.com/keelson-dev/keelson/storage/storagetest"
)

// The test of a backend, here the one in memory, against the contract; t is the test's.
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

// forgetful sometimes loses a deletion.
type forgetful struct{ *memory.Store }

func (forgetful) Delete(_ context.Context, _ string, expected int64) (int64, error) {
	return expected + 1, nil
}

// TestForgetful shows what the suite reports for a faulty store.
func TestForgetful(t *testing.T) {
	failures := storagetest.Failures(t, storagetest.Backend{
		Open:     func(testing.TB) storage.Store { return forgetful{memory.New(memory.Options{History: 500})} },
		Forget:   storagetest.ForgetByWriting(500),
		Patience: 1, // this store delivers at once or never
	})
	for _, f := range failures {
		if f.Check == "Delete" {
			t.Log(f)
			return
		}
	}
	t.Error(fmt.Sprint("the check Delete does not fail: ", failures))
}
