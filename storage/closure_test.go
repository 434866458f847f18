package storage_test

import (
	"testing"

	"github.com/keelson-dev/keelson/internal/depcheck"
)

func TestClosure(t *testing.T) {
	depcheck.AtMost(t, "storage", 0)
	depcheck.Siblings(t, "storage")
	depcheck.AtMost(t, "storage/memory", 1)
	depcheck.Siblings(t, "storage/memory", "storage", "storage/internal/timeline")
	depcheck.AtMost(t, "storage/storagetest", 0)
	depcheck.Siblings(t, "storage/storagetest", "storage")
	depcheck.AtMost(t, "storage/internal/bulk", 0)
	depcheck.Siblings(t, "storage/internal/bulk", "storage")
}
