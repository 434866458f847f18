package envtest_test

import (
	"testing"

	"github.com/keelson-dev/keelson/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.VerifyTestMain(m) }
