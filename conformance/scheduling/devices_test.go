package scheduling_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
	"github.com/keelson-dev/keelson/scheduler/devices"
	"github.com/keelson-dev/keelson/scheduler/devices/structured"
)

const devicesPlugin = "DynamicResources"

// deviceObjects are what a cluster has of devices.
type deviceObjects struct {
	claims  []*resourcev1.ResourceClaim
	slices  []*resourcev1.ResourceSlice
	classes []*resourcev1.DeviceClass
	rules   []*resourcev1.DeviceTaintRule
}

func (d *deviceObjects) all() (all []runtime.Object) {
	for _, o := range d.claims {
		all = append(all, o)
	}
	for _, o := range d.slices {
		all = append(all, o)
	}
	for _, o := range d.classes {
		all = append(all, o)
	}
	for _, o := range d.rules {
		all = append(all, o)
	}
	return all
}

// TestDevices runs in bubbles, so that all caches have settled before decisions are compared.
func TestDevices(t *testing.T) {
	seen := tally{}
	each(t, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			g := &generator{Rand: rand.New(rand.NewPCG(seed, 4))}
			w := newWorld(t, g.devices(), devicesPlugin)
			synctest.Wait()
			for _, pod := range w.pending {
				feasible, state := w.decide(pod)
				seen.note(w.profile.Schedule(pod, w.state.Snapshot()))
				if len(feasible) > 0 {
					w.place(pod, pick(g, feasible...), state, g.chance(0.8))
				}
			}
		})
	})
	seen.log(t)
}

// theirDevices returns upstream's manager of devices, and what starts its informers once all are known.
func (w *world) theirDevices(factory informers.SharedInformerFactory) (fwk.SharedDRAManager, func()) {
	ctx, cancel := context.WithCancel(w.Context())
	all := factory.Resource().V1()
	cache := assumecache.NewAssumeCache(klog.FromContext(ctx), all.ResourceClaims().Informer(), "ResourceClaim", "", nil)
	slices, err := tracker.StartTracker(ctx, tracker.Options{
		EnableDeviceTaintRules: true, EnableConsumableCapacity: true, SliceInformer: all.ResourceSlices(), TaintInformer: all.DeviceTaintRules(),
		KubeClient: fake.NewClientset(),
	})
	if err != nil {
		w.Fatal(err)
	}
	manager := dynamicresources.NewDRAManager(ctx, cache, slices, factory)
	w.Cleanup(func() {
		cancel()
		factory.Shutdown()
	})
	return manager, func() {
		factory.Start(ctx.Done())
		factory.WaitForCacheSync(ctx.Done())
	}
}

// ourDevices returns keelson's, whose informers run until the end of the test.
func (w *world) ourDevices() *devices.Devices {
	in := devices.Sources{
		Nodes: stored(w.nodes), Claims: stored(w.devices.claims), Slices: stored(w.devices.slices), Classes: stored(w.devices.classes), TaintRules: stored(w.devices.rules),
	}
	d := devices.New(in, nil, structured.New(), devices.Options{})
	ctx, cancel := context.WithCancel(w.Context())
	var running sync.WaitGroup
	for _, run := range []func(context.Context) error{in.Nodes.Run, in.Claims.Run, in.Slices.Run, in.Classes.Run, in.TaintRules.Run} {
		running.Go(func() {
			if err := run(ctx); err != nil {
				w.Error(err)
			}
		})
	}
	w.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return d
}

func stored[T informer.Object](all []T) *informer.Informer[T] {
	store := memory.New[T]()
	for _, obj := range all {
		store.Put(obj)
	}
	return informer.New[T](store, informer.Options{})
}

const gpuDriver = "gpu.example.com"

func cel(expression string) []resourcev1.DeviceSelector {
	return []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}}
}

func (g *generator) devices() objects {
	var o objects
	for i := range 1 + g.IntN(4) {
		name := fmt.Sprintf("node-%d", i)
		o.nodes = append(o.nodes, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": pick(g, "a", "b")}},
			Status:     corev1.NodeStatus{Allocatable: corev1.ResourceList{"pods": resource.MustParse("110")}},
		})
		o.devices.slices = append(o.devices.slices, g.slices(name)...)
	}
	if g.chance(0.3) { // of the network
		s := g.slice("shared", 1)
		s.Spec.AllNodes = ptr.To(true)
		if g.chance(0.5) {
			s.Spec.AllNodes, s.Spec.NodeSelector = nil, &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}},
			}}}
		}
		o.devices.slices = append(o.devices.slices, s)
	}
	o.devices.classes = []*resourcev1.DeviceClass{
		{ObjectMeta: metav1.ObjectMeta{Name: "any"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "big"}, Spec: resourcev1.DeviceClassSpec{Selectors: cel(`device.driver == "` + gpuDriver + `" && device.capacity["` + gpuDriver + `"].memory.compareTo(quantity("8Gi")) >= 0`)}},
	}
	if g.chance(0.3) {
		o.devices.rules = append(o.devices.rules, g.rule())
	}
	for i := range 2 + g.IntN(6) {
		o.devices.claims = append(o.devices.claims, g.deviceClaim(fmt.Sprintf("claim-%d", i), o))
	}
	for i := range 3 + g.IntN(8) {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("pod-%d", i), UID: types.UID(fmt.Sprintf("pod-%d", i))}}
		for j := range 1 + g.IntN(2) {
			name := fmt.Sprintf("claim-%d", g.IntN(len(o.devices.claims)+g.IntN(2)))
			p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: fmt.Sprint("r", j), ResourceClaimName: &name})
		}
		if g.chance(0.1) {
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "r", ResourceClaimTemplateName: ptr.To("t")}}
			if g.chance(0.7) {
				status := corev1.PodResourceClaimStatus{Name: "r"}
				if g.chance(0.5) {
					status.ResourceClaimName = ptr.To("claim-0")
				}
				p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{status}
			}
		}
		o.pending = append(o.pending, p)
	}
	return o
}

// slices returns the devices of a node, at times not all that its pool should have.
func (g *generator) slices(node string) (all []*resourcev1.ResourceSlice) {
	count := 1 + g.IntN(2)
	for i := range count {
		s := g.slice(node, int64(count))
		s.Name, s.Spec.NodeName = fmt.Sprintf("%s-%d", node, i), &node
		for j := range s.Spec.Devices {
			s.Spec.Devices[j].Name = fmt.Sprintf("gpu-%d-%d", i, j)
		}
		if !g.chance(0.05) {
			all = append(all, s)
		}
	}
	return all
}

func (g *generator) slice(pool string, count int64) *resourcev1.ResourceSlice {
	s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: pool}, Spec: resourcev1.ResourceSliceSpec{
		Driver: gpuDriver, Pool: resourcev1.ResourcePool{Name: pool, Generation: 1, ResourceSliceCount: count},
	}}
	for i := range g.IntN(4) {
		d := resourcev1.Device{
			Name:       fmt.Sprintf("gpu-%d", i),
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"model": {StringValue: ptr.To(pick(g, "x", "y"))}, "numa": {IntValue: ptr.To(int64(g.IntN(2)))}},
			Capacity:   map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": {Value: *resource.NewQuantity(pick(g, int64(4), 8, 16)<<30, resource.BinarySI)}},
		}
		if g.chance(0.2) {
			d.AllowMultipleAllocations = ptr.To(true)
		}
		if g.chance(0.15) {
			d.Taints = []resourcev1.DeviceTaint{{Key: pick(g, "broken", "hot"), Effect: pick(g, resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNoExecute, resourcev1.DeviceTaintEffectNone)}}
		}
		s.Spec.Devices = append(s.Spec.Devices, d)
	}
	return s
}

func (g *generator) rule() *resourcev1.DeviceTaintRule {
	r := &resourcev1.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "rule"}, Spec: resourcev1.DeviceTaintRuleSpec{
		Taint: resourcev1.DeviceTaint{Key: pick(g, "broken", "hot"), Effect: resourcev1.DeviceTaintEffectNoSchedule},
	}}
	if g.chance(0.9) {
		of := &resourcev1.DeviceTaintSelector{}
		if g.chance(0.5) {
			of.Driver = ptr.To(pick(g, gpuDriver, "other.example.com"))
		}
		if g.chance(0.5) {
			of.Pool = ptr.To("node-0")
		}
		if g.chance(0.5) {
			of.Device = ptr.To("gpu-0-0")
		}
		r.Spec.DeviceSelector = of
	}
	return r
}

func (g *generator) deviceClaim(name string, o objects) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
	for i := range 1 + g.IntN(2) {
		c.Spec.Devices.Requests = append(c.Spec.Devices.Requests, g.request(fmt.Sprint("r", i)))
	}
	if g.chance(0.2) {
		c.Spec.Devices.Constraints = []resourcev1.DeviceConstraint{{MatchAttribute: ptr.To(resourcev1.FullyQualifiedName(gpuDriver + "/" + pick(g, "model", "numa")))}}
	}
	if g.chance(0.05) {
		c.DeletionTimestamp, c.Finalizers = ptr.To(metav1.Now()), []string{"x"}
	}
	if g.chance(0.2) && len(o.devices.slices) > 0 {
		g.allocate(c, pick(g, o.devices.slices...))
	}
	return c
}

func (g *generator) request(name string) resourcev1.DeviceRequest {
	selectors := pick(g, nil, nil, cel(`device.attributes["`+gpuDriver+`"].model == "x"`), cel(`device.capacity["`+gpuDriver+`"].memory.compareTo(quantity("16Gi")) >= 0`))
	if g.chance(0.03) {
		selectors = cel(`device.attributes["` + gpuDriver + `"].missing == "x"`)
	}
	class := pick(g, "any", "any", "big")
	if g.chance(0.05) {
		class = "missing"
	}
	var tolerations []resourcev1.DeviceToleration
	if g.chance(0.2) {
		tolerations = []resourcev1.DeviceToleration{{Key: "broken", Operator: resourcev1.DeviceTolerationOpExists}}
	}
	if g.chance(0.2) {
		r := resourcev1.DeviceRequest{Name: name}
		for i := range 1 + g.IntN(3) {
			r.FirstAvailable = append(r.FirstAvailable, resourcev1.DeviceSubRequest{
				Name: fmt.Sprint("s", i), DeviceClassName: class, Selectors: pick(g, selectors, cel(`device.attributes["`+gpuDriver+`"].model == "y"`)), Tolerations: tolerations,
				AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: int64(1 + g.IntN(3)),
			})
		}
		return r
	}
	e := &resourcev1.ExactDeviceRequest{DeviceClassName: class, Selectors: selectors, Tolerations: tolerations, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: int64(1 + g.IntN(2))}
	switch {
	case g.chance(0.1):
		e.AllocationMode, e.Count = resourcev1.DeviceAllocationModeAll, 0
	case g.chance(0.1):
		e.AdminAccess = ptr.To(true)
	case g.chance(0.15):
		e.Capacity = &resourcev1.CapacityRequirements{Requests: map[resourcev1.QualifiedName]resource.Quantity{"memory": resource.MustParse(pick(g, "2Gi", "4Gi", "8Gi"))}}
	}
	return resourcev1.DeviceRequest{Name: name, Exactly: e}
}

// allocate gives a claim a device, which may have binding conditions that are met, not met or failed.
func (g *generator) allocate(c *resourcev1.ResourceClaim, s *resourcev1.ResourceSlice) {
	if len(s.Spec.Devices) == 0 {
		return
	}
	d := pick(g, s.Spec.Devices...)
	r := resourcev1.DeviceRequestAllocationResult{Request: c.Spec.Devices.Requests[0].Name, Driver: s.Spec.Driver, Pool: s.Spec.Pool.Name, Device: d.Name}
	if len(c.Spec.Devices.Requests[0].FirstAvailable) > 0 {
		r.Request += "/s0"
	}
	if g.chance(0.3) {
		r.BindingConditions, r.BindingFailureConditions = []string{"ready"}, []string{"failed"}
		if g.chance(0.7) {
			c.Status.Devices = []resourcev1.AllocatedDeviceStatus{{Driver: r.Driver, Pool: r.Pool, Device: r.Device, Conditions: []metav1.Condition{
				{Type: pick(g, "ready", "failed"), Status: pick(g, metav1.ConditionTrue, metav1.ConditionFalse)},
			}}}
		}
	}
	c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{r}}, NodeSelector: s.Spec.NodeSelector}
	if s.Spec.NodeName != nil {
		c.Status.Allocation.NodeSelector = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{*s.Spec.NodeName}}},
		}}}
	}
	if g.chance(0.5) {
		c.Status.Allocation.AllocationTimestamp = ptr.To(metav1.NewTime(metav1.Now().Add(-pick(g, time.Minute, 20*time.Minute))))
	}
}
