package cgroup_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/kubelet/cgroup"
)

func Example() {
	web := corev1.Container{Name: "web", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
		},
		Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")},
	}}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{web}}}

	limits := cgroup.PodLimits(pod, cgroup.Quotas{})
	fmt.Println(limits.CPUShares, limits.Memory)

	told := cgroup.Resources(pod, &web, cgroup.Machine{MemoryCapacity: 8 << 30})
	fmt.Println(told.CPUShares, told.MemoryLimit, told.OOMScoreAdj)
	// Output:
	// 256 134217728
	// 256 134217728 993
}
