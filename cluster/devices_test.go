package cluster_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/component/controllermanager"
	"github.com/keelson-dev/keelson/component/kubescheduler"
	"github.com/keelson-dev/keelson/scheduler/devices/structured"
)

// TestDevices: pods get the devices of their claims, wait for devices that others have, and leave them to others when they go.
func TestDevices(t *testing.T) {
	o := cluster.Options{Nodes: cluster.Nodes{Count: 2}}
	o.Components = append(controllermanager.Components(), kubescheduler.Component(kubescheduler.Options{Allocator: structured.New()}))
	inBubble(t, o, func(t *testing.T, w *world) {
		_, err := w.cs.ResourceV1().DeviceClasses().Create(w.ctx, &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu.example.com"}}, metav1.CreateOptions{})
		w.check(err)
		nodes, err := w.cs.CoreV1().Nodes().List(w.ctx, metav1.ListOptions{})
		w.check(err)
		for i := range nodes.Items {
			name := nodes.Items[i].Name
			_, err := w.cs.ResourceV1().ResourceSlices().Create(w.ctx, &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceSliceSpec{
				Driver: "gpu.example.com", NodeName: &name, Pool: resourcev1.ResourcePool{Name: name, ResourceSliceCount: 1},
				Devices: []resourcev1.Device{{Name: "gpu-0"}},
			}}, metav1.CreateOptions{})
			w.check(err)
		}
		train := gpuTemplate(w)
		for _, name := range []string{"a", "b", "c"} {
			pod := train.DeepCopy()
			pod.Name = name
			_, err = w.pods.Create(w.ctx, pod, metav1.CreateOptions{})
			w.check(err)
			time.Sleep(time.Second)
		}
		time.Sleep(10 * time.Second)
		running, waits := w.devices()
		if len(running) != 2 || len(waits) != 1 || !strings.HasPrefix(waits[0], "0/2 nodes are available: 2 cannot allocate all claims.") {
			t.Fatalf("running %v, waiting %v", running, waits)
		}
		w.check(w.pods.Delete(w.ctx, "a", metav1.DeleteOptions{}))
		time.Sleep(2 * time.Minute)
		after, waits := w.devices()
		if len(after) != 2 || len(waits) != 0 || !slices.ContainsFunc(after, func(s string) bool { return strings.HasPrefix(s, "c ") }) {
			t.Errorf("running %v, waiting %v; before %v", after, waits, running)
		}
	})
}

// devices returns the pods that run with their node and device, and why others wait.
func (w *world) devices() (running, waits []string) {
	w.t.Helper()
	pods, err := w.pods.List(w.ctx, metav1.ListOptions{})
	w.check(err)
	used := map[string]bool{}
	for _, pod := range pods.Items {
		if pod.Status.Phase != corev1.PodRunning {
			for _, c := range pod.Status.Conditions {
				if c.Type == corev1.PodScheduled {
					waits = append(waits, c.Message)
				}
			}
			continue
		}
		claim, err := w.cs.ResourceV1().ResourceClaims("default").Get(w.ctx, *pod.Status.ResourceClaimStatuses[0].ResourceClaimName, metav1.GetOptions{})
		w.check(err)
		device := claim.Status.Allocation.Devices.Results[0]
		if device.Pool != pod.Spec.NodeName || used[device.Pool] {
			w.t.Errorf("%s on %s has %+v", pod.Name, pod.Spec.NodeName, device)
		}
		if r := claim.Status.ReservedFor; len(r) != 1 || r[0].UID != pod.UID {
			w.t.Errorf("the claim of %s is reserved for %v", pod.Name, r)
		}
		used[device.Pool] = true
		running = append(running, fmt.Sprintf("%s on %s", pod.Name, pod.Spec.NodeName))
	}
	return running, waits
}
