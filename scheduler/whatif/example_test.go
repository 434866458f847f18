package whatif_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/plugins"
	"github.com/keelson-dev/keelson/scheduler/whatif"
)

func node(name, cpu string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("110"),
		}},
	}
}

func pod(name, cpu string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
		}}}},
	}
}

func on(p *corev1.Pod, node string) *corev1.Pod {
	p.Spec.NodeName = node
	return p
}

func Example() {
	nodes := []*corev1.Node{node("a", "4"), node("b", "2")}
	pods := []*corev1.Pod{on(pod("web", "1"), "a"), on(pod("db", "2"), "a")}
	world, err := whatif.New(scheduler.NewSnapshot(nodes, pods), scheduler.Profile{Plugins: plugins.Default()})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()

	fit := world.Fits(pod("more", "1"), 100)
	fmt.Println("one more fits", fit.Count, "times:", fit.Err)

	loss, err := world.Without(ctx, "b")
	fmt.Println("without b:", len(loss.Moved), "pods move,", len(loss.Pending), "are pending,", err)

	need := world.Missing(ctx, []*corev1.Pod{pod("big", "3"), pod("huge", "9")}, world.Shapes(), 10)
	for _, n := range need {
		fmt.Println("nodes like", n.Shape.Name+":", n.Nodes, "help;", len(n.Pending), "pods are still pending")
	}
	// Output:
	// one more fits 3 times: 0/2 nodes are available: 2 Insufficient cpu.
	// without b: 0 pods move, 0 are pending, <nil>
	// nodes like a: 1 help; 1 pods are still pending
	// nodes like b: 0 help; 2 pods are still pending
}
