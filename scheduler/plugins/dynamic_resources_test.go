package plugins_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/devices"
	"github.com/keelson-dev/keelson/scheduler/devices/structured"
	"github.com/keelson-dev/keelson/scheduler/plugins"
)

// wanting returns a pod with a claim of a name, or one made from a template.
func wanting(claim string) *corev1.Pod {
	p := edit(pod(), func(s *corev1.PodSpec) {
		s.ResourceClaims = []corev1.PodResourceClaim{{Name: "c", ResourceClaimName: &claim}}
		if claim == "" {
			s.ResourceClaims = []corev1.PodResourceClaim{{Name: "c", ResourceClaimTemplateName: ptr.To("gpu")}}
		}
	})
	p.Namespace, p.Name, p.UID = "ns", "p", "p"
	return p
}

func TestDynamicResourcesWithoutDevices(t *testing.T) {
	small := scheduler.NewNodeInfo(node("n", "pods", "10"))
	check(t, plugins.DynamicResources{}, map[string]expect{
		"no claim":   {pod(), small, nil},
		"a claim":    {wanting("gpu"), small, never(`pod requires resourceclaim "gpu", which this scheduler does not support`)},
		"a template": {wanting(""), small, never(`pod requires a resourceclaim for "c", which this scheduler does not support`)},
	})
	d := plugins.DynamicResources{}
	if d.Holds(wanting("gpu")) != nil || !d.SkipReserve(wanting("gpu")) || !d.SkipPreBind(wanting("gpu"), "n") || d.Score(wanting("gpu"), small) != 0 {
		t.Error("it does something without devices")
	}
	if d.MayHelp(wanting("gpu"), scheduler.Event{Kind: scheduler.ObjectAdded, Object: &resourcev1.ResourceClaim{}}) {
		t.Error("a claim has a pod tried again that will not be placed")
	}
}

// gpus are two nodes with one device each, and a class of them.
func gpus(o devices.Options, claims ...*resourcev1.ResourceClaim) plugins.DynamicResources {
	in := devices.Sources{
		Nodes: empty[*corev1.Node](), Claims: empty[*resourcev1.ResourceClaim](), Slices: empty[*resourcev1.ResourceSlice](),
		Classes: empty[*resourcev1.DeviceClass](), TaintRules: empty[*resourcev1.DeviceTaintRule](),
	}
	for _, name := range []string{"n", "m"} {
		in.Nodes.Put(node(name))
		in.Slices.Put(&resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceSliceSpec{
			Driver: "gpu.example.com", NodeName: &name, Pool: resourcev1.ResourcePool{Name: name, ResourceSliceCount: 1},
			Devices: []resourcev1.Device{{Name: "gpu", Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"node": {StringValue: &name}}}},
		}})
	}
	in.Classes.Put(&resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}})
	for _, c := range claims {
		in.Claims.Put(c)
	}
	return plugins.DynamicResources{Devices: devices.New(in, nil, structured.New(), o)}
}

func deviceClaim(name string, changes ...func(*resourcev1.ResourceClaim)) *resourcev1.ResourceClaim {
	return changed(&resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
			Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1},
		}}}},
	}, changes...)
}

func onNode(name string) func(*resourcev1.ResourceClaim) {
	return func(c *resourcev1.ResourceClaim) {
		c.Spec.Devices.Requests[0].Exactly.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{
			Expression: `device.attributes["gpu.example.com"].node == "` + name + `"`,
		}}}
	}
}

func allocatedOn(name string) func(*resourcev1.ResourceClaim) {
	return func(c *resourcev1.ResourceClaim) {
		c.Status.Allocation = &resourcev1.AllocationResult{NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{name}}},
		}}}}
	}
}

func TestDynamicResources(t *testing.T) {
	d := gpus(devices.Options{}, deviceClaim("any"), deviceClaim("there", onNode("n")), deviceClaim("has", allocatedOn("m")),
		deviceClaim("bad", func(c *resourcev1.ResourceClaim) { c.Spec.Devices.Requests[0].Exactly.DeviceClassName = "" }))
	n, m := scheduler.NewNodeInfo(node("n", "pods", "10")), scheduler.NewNodeInfo(node("m", "pods", "10"))
	check(t, d, map[string]expect{
		"no claim":          {pod(), n, nil},
		"a free device":     {wanting("any"), n, nil},
		"none on this node": {wanting("there"), m, never("cannot allocate all claims")},
		"one on this node":  {wanting("there"), n, nil},
		"has one elsewhere": {wanting("has"), n, never("resourceclaim not available on the node")},
		"has one here":      {wanting("has"), m, nil},
		"missing":           {wanting("gone"), n, never(`could not find ResourceClaim "ns/gone"`)},
	})
	if r := d.Check(wanting("bad"), n); r == nil || r.Err == nil {
		t.Errorf("a claim that cannot be: %+v", r)
	}
	if _, err := d.Prepare(wanting("bad"), nil); err == nil {
		t.Error("a claim that cannot be is prepared")
	}
	for name, held := range map[string]bool{"any": false, "gone": true, "": true} {
		if r := d.Holds(wanting(name)); (r != nil) != held {
			t.Errorf("%q is held: %v", name, r)
		}
	}
	if d.Holds(pod()) != nil || !d.SkipReserve(pod()) || !d.SkipPreBind(wanting("any"), "n") {
		t.Error("it has something to do for a pod without claims")
	}
	undo, err := d.Reserve(t.Context(), wanting("any"), "n")
	if err != nil || undo == nil || d.SkipPreBind(wanting("any"), "n") {
		t.Fatalf("Reserve: %v", err)
	}
	undo()
	if undo, err = d.Reserve(t.Context(), pod(), "n"); undo != nil || err != nil {
		t.Errorf("Reserve of nothing: %v", err)
	}
}

// What takes too long fails the attempt.
func TestDynamicResourcesTimeOut(t *testing.T) {
	d := gpus(devices.Options{FindTimeout: time.Nanosecond}, deviceClaim("any"))
	r := d.Check(wanting("any"), scheduler.NewNodeInfo(node("n")))
	if r == nil || r.Err == nil || r.Err.Error() != "node n: timed out trying to allocate devices" {
		t.Errorf("got %+v", r)
	}
	d = gpus(devices.Options{FindTimeout: devices.Unlimited}, deviceClaim("any"))
	if r := d.Check(wanting("any"), scheduler.NewNodeInfo(node("n"))); r != nil {
		t.Errorf("without a limit: %+v", r)
	}
}

func TestDynamicResourcesPreempt(t *testing.T) {
	d := gpus(devices.Options{}, deviceClaim("any"), deviceClaim("has", allocatedOn("m")))
	nodes := []*corev1.Node{node("n", "pods", "9")}
	for name, tt := range map[string]struct {
		pod     *corev1.Pod
		refusal bool
	}{"no claim": {edit(pod(), func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"a": "b"} }), true}, "nothing allocated": {wanting("gone"), true}} {
		profile := scheduler.Profile{Plugins: []scheduler.Enabled{{Plugin: plugins.NodeAffinity{}}, {Plugin: d}}}
		n, err := d.Preempt(t.Context(), profile.Trial(tt.pod, scheduler.NewSnapshot(nodes, nil)))
		var refusal *scheduler.Refusal
		if n != nil || !errors.As(err, &refusal) || len(refusal.Reasons) > 0 {
			t.Errorf("%s: %v, %v", name, n, err)
		}
	}
}

func TestDynamicResourcesMayHelp(t *testing.T) {
	mine := deviceClaim("mine")
	d := gpus(devices.Options{}, mine, deviceClaim("other"))
	p := wanting("mine")
	other := deviceClaim("other")
	has := func(name string) *resourcev1.ResourceClaim { return deviceClaim(name, allocatedOn("m")) }
	updated := func(was, is informer.Object) scheduler.Event {
		return scheduler.Event{Kind: scheduler.ObjectUpdated, OldObject: was, Object: is}
	}
	added := func(obj informer.Object) scheduler.Event {
		return scheduler.Event{Kind: scheduler.ObjectAdded, Object: obj}
	}
	deleted := func(obj informer.Object) scheduler.Event {
		return scheduler.Event{Kind: scheduler.ObjectDeleted, OldObject: obj}
	}
	for name, tt := range map[string]struct {
		pod   *corev1.Pod
		event scheduler.Event
		want  bool
	}{
		"a node":                         {p, scheduler.Event{Kind: scheduler.NodeAdded}, true},
		"a node's labels":                {p, scheduler.Event{Kind: scheduler.NodeUpdated, Change: scheduler.NodeLabelsChanged}, true},
		"a node's resources":             {p, scheduler.Event{Kind: scheduler.NodeUpdated, Change: scheduler.NodeAllocatableChanged}, true},
		"a node's taints":                {p, scheduler.Event{Kind: scheduler.NodeUpdated, Change: scheduler.NodeTaintsChanged}, false},
		"the pod got a claim":            {p, scheduler.Event{Kind: scheduler.PodUpdated, Change: scheduler.PodClaimsChanged, Pod: p}, true},
		"the pod got a label":            {p, scheduler.Event{Kind: scheduler.PodUpdated, Change: scheduler.PodLabelsChanged, Pod: p}, false},
		"the pod lacks another":          {p, scheduler.Event{Kind: scheduler.PodUpdated, Change: scheduler.PodClaimsChanged, Pod: wanting("gone")}, false},
		"its claim":                      {p, added(mine), true},
		"another's claim":                {p, added(other), false},
		"its claim changed":              {p, updated(mine, has("mine")), true},
		"its claim, but not its status":  {p, updated(mine, mine), false},
		"another got devices":            {p, updated(other, has("other")), false},
		"another lost its devices":       {p, updated(has("other"), other), true},
		"while it lacks a claim":         {wanting("gone"), updated(has("other"), other), false},
		"a claim with devices has gone":  {p, deleted(has("other")), true},
		"one without has gone":           {p, deleted(other), false},
		"a class":                        {p, added(&resourcev1.DeviceClass{}), true},
		"devices":                        {p, updated(&resourcev1.ResourceSlice{}, &resourcev1.ResourceSlice{}), true},
		"a taint":                        {p, added(&resourcev1.DeviceTaintRule{}), true},
		"the end of a taint":             {p, deleted(&resourcev1.DeviceTaintRule{}), true},
		"the end of devices":             {p, deleted(&resourcev1.ResourceSlice{}), false},
		"something else":                 {p, added(&corev1.PersistentVolume{}), false},
		"another pod, which frees nodes": {p, scheduler.Event{Kind: scheduler.AssignedPodDeleted, OldPod: p}, false},
	} {
		if got := d.MayHelp(tt.pod, tt.event); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestWithDevices(t *testing.T) {
	d := gpus(devices.Options{}).Devices
	all := plugins.WithDevices(plugins.Default(), d)
	uses := func(of *devices.Devices) func(scheduler.Enabled) bool {
		return func(e scheduler.Enabled) bool {
			p, ok := e.Plugin.(plugins.DynamicResources)
			return ok && p.Devices == of
		}
	}
	if !slices.ContainsFunc(all, uses(d)) || !slices.ContainsFunc(plugins.WithDevices(all, gpus(devices.Options{}).Devices), uses(d)) {
		t.Error("the plugin has other devices")
	}
}
