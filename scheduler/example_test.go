package scheduler_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/predicates"
	"github.com/keelson-dev/keelson/scheduler/priorities"
)

// A predicate and a priority of one's own, beside upstream's, and what they decide.
func Example() {
	ssd := scheduler.PredicateFunc("SSD", func(pod *corev1.Pod, n *scheduler.NodeInfo) *scheduler.Refusal {
		if pod.Annotations["disk"] == "ssd" && n.Node.Labels["disk"] != "ssd" {
			return &scheduler.Refusal{Reasons: []string{"node(s) had no SSD"}, Unresolvable: true}
		}
		return nil
	})
	quiet := scheduler.PriorityFunc("Quiet", func(_ *corev1.Pod, n *scheduler.NodeInfo) int64 {
		return scheduler.MaxScore / int64(1+len(n.Pods))
	})
	profile := scheduler.Profile{
		Predicates: append(predicates.Default(), ssd),
		Priorities: append(priorities.Default(), scheduler.Weighted{Priority: quiet, Weight: 5}),
	}

	a, b, c := node("a", "4", "8Gi"), node("b", "4", "8Gi"), node("c", "4", "8Gi")
	a.Labels["disk"], b.Labels["disk"] = "ssd", "ssd"
	cluster := scheduler.NewSnapshot([]*corev1.Node{a, b, c}, []*corev1.Pod{on(pod("busy", "0", "0"), "a")})

	db := pod("db", "1", "1Gi")
	db.Annotations = map[string]string{"disk": "ssd"}
	fmt.Print(profile.Schedule(db, cluster))
	// Output:
	// default/db goes to b: 2/3 nodes are available
	//   NODE  TOTAL  TaintToleration×3  NodeAffinity×2  NodeResourcesFit  NodeResourcesBalancedAllocation  ImageLocality  Quiet×5
	//   b     952    100 (0)            -               81                71                               -              100
	//   a     702    100 (0)            -               81                71                               -              50
	//   NODE  REFUSED BY  REASON              PREEMPTION
	//   c     SSD         node(s) had no SSD  no help
}

// What would be if a node were taken out?
func ExampleSnapshot_State() {
	profile := scheduler.Profile{Predicates: predicates.Default(), Priorities: priorities.Default()}
	now := scheduler.NewSnapshot([]*corev1.Node{node("a", "4", "8Gi"), node("b", "1", "8Gi")}, nil)

	without := now.State()
	without.RemoveNode("a")

	web := pod("web", "2", "1Gi")
	fmt.Println(profile.Schedule(web, now).Node)
	fmt.Println(profile.Schedule(web, without.Snapshot()).Err)
	// Output:
	// a
	// 0/1 nodes are available: 1 Insufficient cpu.
}
