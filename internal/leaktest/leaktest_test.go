package leaktest_test

import (
	"testing"
	"time"

	"github.com/keelson-dev/keelson/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.VerifyTestMain(m) }

// TestLate leaves a goroutine that ends after goleak has lost patience: the package passes all the same.
func TestLate(t *testing.T) {
	began := make(chan struct{})
	go func() {
		close(began)
		time.Sleep(time.Second)
	}()
	<-began
}
