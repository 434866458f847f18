package scheduler_test

import (
	"testing"

	"github.com/keelson-dev/keelson/internal/depcheck"
)

func TestClosure(t *testing.T) {
	for _, pkg := range []string{"scheduler", "scheduler/queue", "scheduler/predicates", "scheduler/priorities", "scheduler/schedulertest"} {
		depcheck.AtMost(t, pkg, 150)
	}
	depcheck.Siblings(t, "scheduler/queue")
	depcheck.Siblings(t, "scheduler", "client", "events", "informer", "internal/pause", "scheduler/queue")
	for _, pkg := range []string{"scheduler/predicates", "scheduler/priorities"} {
		depcheck.Siblings(t, pkg, "client", "events", "informer", "internal/pause", "scheduler", "scheduler/queue", "scheduler/internal/signature")
	}
	depcheck.Siblings(t, "scheduler/schedulertest", "client", "events", "informer", "internal/pause", "scheduler", "scheduler/queue")
}
