package pinning_test

import (
	"context"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet/pinning"
	"github.com/keelson-dev/keelson/kubelet/pinning/cpus"
)

// pods are those of a kubelet, on a runtime that can update their containers.
type pods []*corev1.Pod

func (p pods) Pods() []*corev1.Pod { return p }

func (p pods) Live(types.UID) bool { return true }

func (p pods) UpdateContainerResources(context.Context, string, cri.Resources) error { return nil }

func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	one := corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi")}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "uid"}, Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Name: "main", Resources: corev1.ResourceRequirements{Requests: one, Limits: one}},
	}}}
	settings := pinning.Settings{
		CPUs:     pinning.CPUSettings{Policy: pinning.CPUsExclusive, Reserved: cpuset.New(0)},
		Reserved: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
	}
	machine := pinning.Machine{CPUs: cpus.Topology{0: {Core: 0}, 1: {Core: 1}}}
	allocator, err := pinning.New(dir, machine, pods{pod}, pods{pod}, pinning.Options{Settings: settings})
	if err != nil {
		fmt.Println(err)
		return
	}
	if refusal := allocator.Admit(pod); refusal != nil {
		fmt.Println(refusal)
		return
	}
	var resources cri.Resources
	allocator.Pin(pod.UID, "main", &resources)
	fmt.Println(resources.CPUs)
	// Output: 1
}
