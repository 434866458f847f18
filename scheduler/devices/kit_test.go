package devices_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/lag"
	"github.com/keelson-dev/keelson/informer/memory"
	"github.com/keelson-dev/keelson/scheduler/devices"
	"github.com/keelson-dev/keelson/scheduler/devices/structured"
)

const driver = "gpu.example.com"

// server is an API server's objects, to which a Devices writes. Nodes "n" and "m" have the devices gpu-0 and gpu-1 each, of
// the class "gpu".
type server struct {
	t       *testing.T
	nodes   *memory.Store[*corev1.Node]
	claims  *memory.Store[*resourcev1.ResourceClaim]
	slices  *memory.Store[*resourcev1.ResourceSlice]
	classes *memory.Store[*resourcev1.DeviceClass]
	rules   *memory.Store[*resourcev1.DeviceTaintRule]
	lag     *lag.Source[*resourcev1.ResourceClaim]
	in      devices.Sources

	mu sync.Mutex
	// before, if set, is called before each write.
	before func(subresource string, c *resourcev1.ResourceClaim) error
	writes []string
	gets   int
}

func newServer(t *testing.T) *server {
	s := &server{
		t: t, nodes: memory.New[*corev1.Node](), claims: memory.New[*resourcev1.ResourceClaim](), slices: memory.New[*resourcev1.ResourceSlice](),
		classes: memory.New[*resourcev1.DeviceClass](), rules: memory.New[*resourcev1.DeviceTaintRule](),
	}
	o := informer.Options{DetectMutations: func(err error) { t.Error(err) }}
	s.lag = lag.New[*resourcev1.ResourceClaim](s.claims)
	s.in = devices.Sources{
		Nodes: informer.New[*corev1.Node](s.nodes, o), Claims: informer.New[*resourcev1.ResourceClaim](s.lag, o),
		Slices: informer.New[*resourcev1.ResourceSlice](s.slices, o), Classes: informer.New[*resourcev1.DeviceClass](s.classes, o),
		TaintRules: informer.New[*resourcev1.DeviceTaintRule](s.rules, o),
	}
	for _, name := range []string{"n", "m"} {
		s.nodes.Put(node(name))
		s.slices.Put(slice(name, device("gpu-0"), device("gpu-1")))
	}
	s.classes.Put(&resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourcev1.DeviceClassSpec{
		Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: `device.driver == "` + driver + `"`}}},
	}})
	return s
}

func node(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
}

// slice publishes devices of a node.
func slice(node string, all ...resourcev1.Device) *resourcev1.ResourceSlice {
	return &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: resourcev1.ResourceSliceSpec{
		Driver: driver, NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, ResourceSliceCount: 1}, Devices: all,
	}}
}

func device(name string, changes ...func(*resourcev1.Device)) resourcev1.Device {
	d := resourcev1.Device{Name: name}
	for _, change := range changes {
		change(&d)
	}
	return d
}

// run runs a test in a bubble with a Devices whose caches are full.
func run(t *testing.T, o devices.Options, test func(*testing.T, *server, *devices.Devices)) {
	t.Helper()
	runNew(t, func(s *server) *devices.Devices { return devices.New(s.in, s, structured.New(), o) }, test)
}

// runNew is run for a Devices made in another way.
func runNew(t *testing.T, with func(*server) *devices.Devices, test func(*testing.T, *server, *devices.Devices)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		d := with(s)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for _, run := range []func(context.Context) error{s.in.Nodes.Run, s.in.Claims.Run, s.in.Slices.Run, s.in.Classes.Run, s.in.TaintRules.Run} {
			all.Go(func() {
				if err := run(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		if err := d.WaitSynced(ctx); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		test(t, s, d)
		cancel()
		all.Wait()
	})
}

// Get implements client.Getter.
func (s *server) Get(_ context.Context, from client.Target) (runtime.Object, error) {
	s.mu.Lock()
	s.gets++
	s.mu.Unlock()
	if c, ok := s.claims.Get(from.Namespace, from.Name); ok {
		return c, nil
	}
	return nil, apierrors.NewNotFound(resourcev1.Resource("resourceclaims"), from.Name)
}

// Update implements client.Updater with the check of versions, and the separation of spec and status.
func (s *server) Update(_ context.Context, to client.Target, obj runtime.Object, _ metav1.UpdateOptions) (runtime.Object, error) {
	c := obj.(*resourcev1.ResourceClaim)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.before != nil {
		if err := s.before(to.Subresource, c); err != nil {
			return nil, err
		}
	}
	was, ok := s.claims.Get(to.Namespace, to.Name)
	switch {
	case !ok:
		return nil, apierrors.NewNotFound(resourcev1.Resource("resourceclaims"), to.Name)
	case was.ResourceVersion != c.ResourceVersion:
		return nil, apierrors.NewConflict(resourcev1.Resource("resourceclaims"), to.Name, errors.New("too old"))
	}
	next := was.DeepCopy()
	if to.Subresource == "status" {
		next.Status = c.Status
		s.writes = append(s.writes, fmt.Sprintf("%s has %s for %s", c.Name, result(c), consumers(c)))
	} else {
		next.Finalizers = c.Finalizers
		s.writes = append(s.writes, fmt.Sprintf("%s kept by %s", c.Name, c.Finalizers))
	}
	return s.claims.Put(next), nil
}

// reads returns how often a claim was read.
func (s *server) reads() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gets
}

// wrote returns what was written since the last call.
func (s *server) wrote() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := fmt.Sprint(s.writes)
	s.writes = nil
	return out
}

// put stores a claim and waits until it is seen.
func (s *server) put(c *resourcev1.ResourceClaim) {
	s.claims.Put(c)
	synctest.Wait()
}

// edit changes a stored claim.
func (s *server) edit(name string, change func(*resourcev1.ResourceClaim)) {
	c, _ := s.claims.Get("ns", name)
	c = c.DeepCopy()
	change(c)
	s.put(c)
}

// result returns the devices of a claim.
func result(c *resourcev1.ResourceClaim) string {
	if c.Status.Allocation == nil {
		return "nothing"
	}
	return found([]resourcev1.AllocationResult{*c.Status.Allocation})
}

func found(all []resourcev1.AllocationResult) string {
	out := ""
	for _, a := range all {
		for _, r := range a.Devices.Results {
			out += r.Pool + "/" + r.Device + " "
		}
	}
	if out == "" {
		return "nothing"
	}
	return out[:len(out)-1]
}

func consumers(c *resourcev1.ResourceClaim) (names []string) {
	for _, r := range c.Status.ReservedFor {
		names = append(names, r.Resource+"/"+r.Name)
	}
	return names
}

// claim returns a claim for one device of the class "gpu".
func claim(name string, changes ...func(*resourcev1.ResourceClaim)) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
			Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1},
		}}}},
	}
	for _, change := range changes {
		change(c)
	}
	return c
}

// pod returns a pod with claims of these names.
func pod(name string, claims ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
	for _, c := range claims {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: c, ResourceClaimName: &c})
	}
	return p
}

// look returns the devices that a pod's claims could have on a node, or why none.
func look(t *testing.T, d *devices.Devices, p *corev1.Pod, on string) string {
	t.Helper()
	claims, err := d.Of(p)
	if err != nil {
		return err.Error()
	}
	all, err := claims.Find(node(on))
	if err != nil {
		return err.Error()
	}
	return found(all)
}

func reserve(t *testing.T, d *devices.Devices, p *corev1.Pod, node string) (undo func()) {
	t.Helper()
	undo, err := d.Reserve(p, node)
	if err != nil || undo == nil {
		t.Fatalf("reserving for %s: %v, undo %v", p.Name, err, undo != nil)
	}
	return undo
}

// bindLater calls Bind and returns where its error will be.
func bindLater(ctx context.Context, d *devices.Devices, p *corev1.Pod, node string) <-chan error {
	done := make(chan error, 1)
	go func() { done <- d.Bind(ctx, p, node) }()
	return done
}

func returned(done <-chan error) string {
	synctest.Wait()
	select {
	case err := <-done:
		if err == nil {
			return "done"
		}
		return err.Error()
	default:
		return "waits"
	}
}

func equal(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got  %s\nwant %s", what, got, want)
	}
}
