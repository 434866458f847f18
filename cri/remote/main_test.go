package remote_test

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain checks that clients, streams and servers that were closed leave no goroutine.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
