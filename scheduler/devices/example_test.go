package devices_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/devices"
	"github.com/keelson-dev/keelson/scheduler/devices/structured"
	"github.com/keelson-dev/keelson/scheduler/plugins"
)

func cache[T informer.Object](objects ...T) *informer.Informer[T] {
	in := informer.New[T](memory.New[T](), informer.Options{})
	for _, obj := range objects {
		in.Put(obj)
	}
	return in
}

// A pod goes where a device is that its claim selects. There is no server: the caches are filled by hand.
func Example() {
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "default", Name: name} }
	where, claim, pages := "b", "fast", int64(80)
	in := devices.Sources{
		Nodes: cache[*corev1.Node](),
		Claims: cache(&resourcev1.ResourceClaim{ObjectMeta: named(claim), Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
			Requests: []resourcev1.DeviceRequest{{Name: "printer", Exactly: &resourcev1.ExactDeviceRequest{
				DeviceClassName: "printer", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
				Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: `device.attributes["printer.example.com"].pages > 50`}}},
			}}},
		}}}),
		Classes: cache(&resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "printer"}}),
		Slices: cache(&resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: resourcev1.ResourceSliceSpec{
			Driver: "printer.example.com", NodeName: &where, Pool: resourcev1.ResourcePool{Name: "b", ResourceSliceCount: 1},
			Devices: []resourcev1.Device{{Name: "laser", Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"pages": {IntValue: &pages}}}},
		}}),
		TaintRules: cache[*resourcev1.DeviceTaintRule](),
	}
	known := devices.New(in, nil, structured.New(), devices.Options{})
	profile := scheduler.Profile{Plugins: plugins.WithDevices([]scheduler.Enabled{{Plugin: plugins.DynamicResources{}}}, known)}

	pod := &corev1.Pod{ObjectMeta: named("report"), Spec: corev1.PodSpec{
		ResourceClaims: []corev1.PodResourceClaim{{Name: "printer", ResourceClaimName: &claim}},
	}}
	nodes := []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, {ObjectMeta: metav1.ObjectMeta{Name: "b"}}}
	fmt.Println(profile.Schedule(pod, scheduler.NewSnapshot(nodes, nil)))
	// Output:
	// default/report goes to b: 1/2 nodes are available
	//   b passes and was not scored
	//   NODE  REFUSED BY        REASON                      PREEMPTION
	//   a     DynamicResources  cannot allocate all claims  no help
}
