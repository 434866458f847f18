package schedulertest_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/schedulertest"
)

// printer is a T for this example; tests pass their *testing.T.
type printer struct{}

func (printer) Helper()                           {}
func (printer) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }

func Example() {
	schedulertest.TestPredicate(printer{}, scheduler.PredicateFunc("NotMute", func(*corev1.Pod, *scheduler.NodeInfo) *scheduler.Refusal {
		return nil
	}))
	schedulertest.TestPriority(printer{}, scheduler.PriorityFunc("Loud", func(*corev1.Pod, *scheduler.NodeInfo) int64 {
		return 0
	}))
	fmt.Println("done")
	// Output: done
}
