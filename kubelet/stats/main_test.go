package stats_test

import (
	"testing"

	"github.com/keelson-dev/keelson/internal/fakeroot"
)

func TestMain(m *testing.M) { fakeroot.Main(m) }
