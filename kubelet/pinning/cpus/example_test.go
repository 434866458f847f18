package cpus_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/cpuset"

	"github.com/keelson-dev/keelson/kubelet/pinning/cpus"
)

func Example() {
	machine := cpus.Topology{0: {Core: 0}, 1: {Core: 1}, 2: {Core: 0}, 3: {Core: 1}} // two cores of two threads
	policy, err := cpus.New(machine, cpuset.New(), resource.MustParse("500m"), cpus.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	state, err := policy.Restore(cpus.State{})
	if err != nil {
		fmt.Println(err)
		return
	}
	list := corev1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("1Gi")}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "uid"}, Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Name: "main", Resources: corev1.ResourceRequirements{Requests: list, Limits: list}},
	}}}
	state, err = policy.Allocate(state, pod, &pod.Spec.Containers[0], 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	own, _ := state.Of("uid", "main")
	fmt.Println("reserved", policy.Reserved(), "own", own, "shared", state.Shared)
	// Output: reserved 0 own 1,3 shared 0,2
}
