package priorities_test

import (
	"fmt"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/priorities"
)

func Example() {
	half := scheduler.NewNodeInfo(node("4", "8Gi"), pod("2", "4Gi"))
	fmt.Println(priorities.NodeResourcesFit{}.Score(pod("1", "1Gi"), half))
	// Output: 31
}
