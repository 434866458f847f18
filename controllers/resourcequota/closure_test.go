package resourcequota_test

import (
	"testing"

	"github.com/keelson-dev/keelson/internal/depcheck"
)

func TestClosure(t *testing.T) { depcheck.AtMost(t, "controllers/resourcequota", 150) }
