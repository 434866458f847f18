package predicates_test

import (
	"fmt"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/predicates"
)

func Example() {
	full := scheduler.NewNodeInfo(node("a", "cpu", "2", "pods", "10"), pod("cpu", "1500m"))
	refusal := predicates.NodeResourcesFit{}.Check(pod("cpu", "1"), full)
	fmt.Println(refusal.Reasons, refusal.Unresolvable)
	// Output: [Insufficient cpu] false
}
