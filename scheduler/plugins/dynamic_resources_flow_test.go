package plugins_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/budgets"
	"github.com/keelson-dev/keelson/scheduler/devices"
	"github.com/keelson-dev/keelson/scheduler/devices/structured"
	"github.com/keelson-dev/keelson/scheduler/groups"
	"github.com/keelson-dev/keelson/scheduler/plugins"
	"github.com/keelson-dev/keelson/scheduler/volumes"
)

// writes is a server that takes all writes of claims, or none.
type writes struct {
	all []string
	err error
}

func (w *writes) Get(_ context.Context, t client.Target) (runtime.Object, error) {
	return nil, apierrors.NewNotFound(t.Resource.GroupResource(), t.Name)
}

func (w *writes) Update(_ context.Context, t client.Target, obj runtime.Object, _ metav1.UpdateOptions) (runtime.Object, error) {
	w.all = append(w.all, strings.TrimSuffix(t.Name+"/"+t.Subresource, "/"))
	return obj, w.err
}

// written is like gpus, with a server.
func written(w *writes, claims ...*resourcev1.ResourceClaim) plugins.DynamicResources {
	in := devices.Sources{
		Nodes: empty[*corev1.Node](), Claims: empty[*resourcev1.ResourceClaim](), Slices: empty[*resourcev1.ResourceSlice](),
		Classes: empty[*resourcev1.DeviceClass](), TaintRules: empty[*resourcev1.DeviceTaintRule](),
	}
	in.Nodes.Put(node("n"))
	in.Classes.Put(&resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}})
	in.Slices.Put(&resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: resourcev1.ResourceSliceSpec{
		Driver: "gpu.example.com", NodeName: new("n"), Pool: resourcev1.ResourcePool{Name: "n", ResourceSliceCount: 1}, Devices: []resourcev1.Device{{Name: "gpu"}},
	}})
	for _, c := range claims {
		in.Claims.Put(c)
	}
	return plugins.DynamicResources{Devices: devices.New(in, w, structured.New(), devices.Options{})}
}

// What was reserved is written before the pod is bound, and nothing afterwards.
func TestDynamicResourcesPreBind(t *testing.T) {
	w := &writes{}
	d := written(w, deviceClaim("any"))
	p := wanting("any")
	if _, err := d.Reserve(t.Context(), p, "n"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := d.PreBind(t.Context(), p, "n"); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(w.all, []string{"any", "any/status"}) || !d.SkipPreBind(p, "n") {
		t.Errorf("wrote %q", w.all)
	}
	w.err = errors.New("down")
	if _, err := d.Reserve(t.Context(), wanting("other"), "n"); err == nil {
		t.Error("a claim that does not exist is reserved")
	}
	d = written(w, deviceClaim("any"))
	if _, err := d.Reserve(t.Context(), p, "n"); err != nil {
		t.Fatal(err)
	}
	if err := d.PreBind(t.Context(), p, "n"); !errors.Is(err, w.err) {
		t.Errorf("got %v", err)
	}
	if err := (plugins.DynamicResources{}).PreBind(t.Context(), p, "n"); err != nil {
		t.Errorf("without devices: %v", err)
	}
}

// Devices are taken back where they keep the pod from the nodes that it could have, and not for other nodes' sake.
func TestDynamicResourcesTakesBack(t *testing.T) {
	down := errors.New("down")
	labelled := wanting("has")
	labelled.Spec.NodeSelector = map[string]string{"a": "b"}
	for name, tt := range map[string]struct {
		pod   *corev1.Pod
		fail  error
		want  string
		wrote int
	}{
		"elsewhere":      {wanting("has"), nil, "deallocation of ResourceClaim completed", 1},
		"failing":        {wanting("has"), down, "down", 1},
		"another reason": {labelled, nil, "", 0},
	} {
		w := &writes{err: tt.fail}
		d := written(w, deviceClaim("has", allocatedOn("m")))
		profile := scheduler.Profile{Plugins: []scheduler.Enabled{{Plugin: plugins.NodeAffinity{}}, {Plugin: d}}}
		n, err := d.Preempt(t.Context(), profile.Trial(tt.pod, scheduler.NewSnapshot([]*corev1.Node{node("n", "pods", "9")}, nil)))
		var refusal *scheduler.Refusal
		got := ""
		if errors.As(err, &refusal) {
			got = strings.Join(refusal.Reasons, ", ")
		} else if err != nil {
			got = err.Error()
		}
		if n != nil || err == nil || got != tt.want || len(w.all) != tt.wrote {
			t.Errorf("%s: %v, %v; wrote %q", name, n, err, w.all)
		}
	}
}

// Nodes with an earlier alternative of a request are better.
func TestDynamicResourcesScores(t *testing.T) {
	sub := func(name, on string) resourcev1.DeviceSubRequest {
		return resourcev1.DeviceSubRequest{
			Name: name, DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
			Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: `device.attributes["gpu.example.com"].node == "` + on + `"`}}},
		}
	}
	d := gpus(devices.Options{}, deviceClaim("plain"), deviceClaim("either", func(c *resourcev1.ResourceClaim) {
		c.Spec.Devices.Requests[0] = resourcev1.DeviceRequest{Name: "r", FirstAvailable: []resourcev1.DeviceSubRequest{sub("first", "m"), sub("second", "n")}}
	}), deviceClaim("bad", func(c *resourcev1.ResourceClaim) { c.Spec.Devices.Requests[0].Exactly.DeviceClassName = "" }))
	for on, want := range map[string]int64{"m": 8, "n": 7, "x": 0} {
		if got := d.Score(wanting("either"), scheduler.NewNodeInfo(node(on))); got != want {
			t.Errorf("%s: %d, want %d", on, got, want)
		}
	}
	for _, p := range []*corev1.Pod{pod(), wanting("plain")} {
		if s, err := d.PrepareScores(p, nil, nil); err != nil || !s.Skip {
			t.Errorf("%+v, %v", s, err)
		}
	}
	if s, err := d.PrepareScores(wanting("bad"), nil, nil); err == nil || d.Score(wanting("bad"), scheduler.NewNodeInfo(node("n"))) != 0 {
		t.Errorf("of a claim that cannot be: %+v", s)
	}
	scores := []int64{8, 4, 0}
	d.Normalize(wanting("either"), scores)
	if !slices.Equal(scores, []int64{100, 50, 0}) {
		t.Errorf("scaled to %v", scores)
	}
}

// TestWith: plugins get what they use unless they have something else, and the list that was passed stays as it was.
func TestWith(t *testing.T) {
	b, v, g := &budgets.Budgets{}, &volumes.Volumes{}, &groups.Groups{}
	uses := func(all []scheduler.Enabled, b *budgets.Budgets, v *volumes.Volumes, g *groups.Groups) int {
		n := 0
		for _, e := range all {
			switch p := e.Plugin.(type) {
			case plugins.DefaultPreemption:
				n += one(p.Budgets == b)
			case plugins.VolumeRestrictions:
				n += one(p.Volumes == v)
			case plugins.NodeVolumeLimits:
				n += one(p.Volumes == v)
			case plugins.VolumeBinding:
				n += one(p.Volumes == v)
			case plugins.VolumeZone:
				n += one(p.Volumes == v)
			case plugins.InterPodAffinity:
				n += one(p.Groups == g)
			case plugins.PodTopologySpread:
				n += one(p.Groups == g)
			}
		}
		return n
	}
	with := func(all []scheduler.Enabled, b *budgets.Budgets, v *volumes.Volumes, g *groups.Groups) []scheduler.Enabled {
		return plugins.WithGroups(plugins.WithVolumes(plugins.WithBudgets(all, b), v), g)
	}
	bare := plugins.Default()
	all := with(bare, b, v, g)
	if n := uses(all, b, v, g); n != 7 {
		t.Errorf("%d of 7 plugins have what they use", n)
	}
	if n := uses(bare, nil, nil, nil); n != 7 {
		t.Errorf("%d of 7 plugins of the list that was passed are as they were", n)
	}
	if n := uses(with(all, &budgets.Budgets{}, &volumes.Volumes{}, &groups.Groups{}), b, v, g); n != 7 {
		t.Errorf("%d of 7 plugins keep what they had", n)
	}
}

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
