package resourcequota_test

import (
	"testing"

	"github.com/keelson-dev/keelson/internal/depcheck"
)

func TestClosure(t *testing.T) { depcheck.AtMost(t, "admission/resourcequota", 150) }
