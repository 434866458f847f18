package scheduler_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/plugins"
)

// node has room for 110 pods.
func node(name, cpu, memory string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse(cpu),
			corev1.ResourceMemory: resource.MustParse(memory),
			corev1.ResourcePods:   resource.MustParse("110"),
		}},
	}
}

// pod requests CPU and memory, "" for none.
func pod(name, cpu, memory string) *corev1.Pod {
	requests := corev1.ResourceList{}
	if cpu != "" {
		requests[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		requests[corev1.ResourceMemory] = resource.MustParse(memory)
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name + "-uid")},
		Spec: corev1.PodSpec{
			SchedulerName: corev1.DefaultSchedulerName,
			Containers:    []corev1.Container{{Name: "c", Image: "nginx", Resources: corev1.ResourceRequirements{Requests: requests}}},
		},
	}
}

// on is the pod on that node.
func on(p *corev1.Pod, node string) *corev1.Pod {
	p = p.DeepCopy()
	p.Spec.NodeName = node
	return p
}

// A custom predicate and priority beside upstream's, and what they decide.
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
		Plugins: append(plugins.Default(), scheduler.Enabled{Plugin: ssd}, scheduler.Enabled{Plugin: quiet, Weight: 5}),
	}

	a, b, c := node("a", "4", "8Gi"), node("b", "4", "8Gi"), node("c", "4", "8Gi")
	a.Labels["disk"], b.Labels["disk"] = "ssd", "ssd"
	cluster := scheduler.NewSnapshot([]*corev1.Node{a, b, c}, []*corev1.Pod{on(pod("busy", "0", "0"), "a")})

	db := pod("db", "1", "1Gi")
	db.Annotations = map[string]string{"disk": "ssd"}
	fmt.Print(profile.Schedule(db, cluster))
	// Output:
	// default/db goes to b: 2/3 nodes are available
	//   NODE  TOTAL  TaintToleration×3  NodeAffinity×2  NodeResourcesFit  VolumeBinding  PodTopologySpread×2  InterPodAffinity×2  DynamicResources×2  NodeResourcesBalancedAllocation  ImageLocality  Quiet×5
	//   b     952    100 (0)            -               81                -              -                    -                   -                   71                               -              100
	//   a     702    100 (0)            -               81                -              -                    -                   -                   71                               -              50
	//   NODE  REFUSED BY  REASON              PREEMPTION
	//   c     SSD         node(s) had no SSD  no help
}

// What would happen if a node were removed?
func ExampleSnapshot_State() {
	profile := scheduler.Profile{Plugins: plugins.Default()}
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
