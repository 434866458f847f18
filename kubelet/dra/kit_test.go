package dra_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	drav1 "k8s.io/kubelet/pkg/apis/dra/v1"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/kubelet/dra"
	"github.com/keelson-dev/keelson/registry/resource"
)

const driverName = "gpu.example.com"

// script is a driver that does what it is told, over a real socket.
type script struct {
	drav1.UnimplementedDRAPluginServer
	registration.UnimplementedRegistrationServer
	name, endpoint string

	mu       sync.Mutex
	kind     string
	versions []string
	fail     error  // of calls
	refuse   string // about claims
	hang     bool   // until the caller gives up
	skip     bool   // answers about no claim
	strange  bool   // answers about another claim
	calls    []string
	during   func()        // is called by each call
	patience time.Duration // of the last call's caller
	status   *registration.RegistrationStatus
}

func (s *script) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// took returns the calls since the last time.
func (s *script) took() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := strings.Join(s.calls, ", ")
	s.calls = nil
	return out
}

func (s *script) call(ctx context.Context, verb string, claims []*drav1.Claim) (uid, refuse string, err error) {
	s.mu.Lock()
	for _, c := range claims {
		s.calls = append(s.calls, verb+" "+c.GetNamespace()+"/"+c.GetName())
		uid = c.GetUid()
	}
	hang := s.hang
	if s.during != nil {
		s.during()
	}
	if until, ok := ctx.Deadline(); ok {
		s.patience = time.Until(until)
	}
	if s.strange {
		uid = "strange"
	}
	if s.skip {
		uid = ""
	}
	refuse, err = s.refuse, s.fail
	s.mu.Unlock()
	if hang {
		<-ctx.Done()
		err = ctx.Err()
	}
	return uid, refuse, err
}

// NodePrepareResources answers with a device for the request "r", and one for all.
func (s *script) NodePrepareResources(ctx context.Context, r *drav1.NodePrepareResourcesRequest) (*drav1.NodePrepareResourcesResponse, error) {
	uid, refuse, err := s.call(ctx, "prepare", r.GetClaims())
	answer := &drav1.NodePrepareResourcesResponse{Claims: map[string]*drav1.NodePrepareResourceResponse{}}
	if uid != "" {
		answer.Claims[uid] = &drav1.NodePrepareResourceResponse{Error: refuse, Devices: []*drav1.Device{
			{RequestNames: []string{"r"}, CdiDeviceIds: []string{s.name + "/gpu=0"}}, {CdiDeviceIds: []string{s.name + "/all=1"}},
		}}
	}
	return answer, err
}

func (s *script) NodeUnprepareResources(ctx context.Context, r *drav1.NodeUnprepareResourcesRequest) (*drav1.NodeUnprepareResourcesResponse, error) {
	uid, refuse, err := s.call(ctx, "unprepare", r.GetClaims())
	answer := &drav1.NodeUnprepareResourcesResponse{Claims: map[string]*drav1.NodeUnprepareResourceResponse{}}
	if uid != "" {
		answer.Claims[uid] = &drav1.NodeUnprepareResourceResponse{Error: refuse}
	}
	return answer, err
}

func (s *script) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &registration.PluginInfo{Type: s.kind, Name: s.name, Endpoint: s.endpoint, SupportedVersions: s.versions}, nil
}

func (s *script) NotifyRegistrationStatus(_ context.Context, status *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = status
	return &registration.RegistrationStatusResponse{}, nil
}

// told returns what the registrar was told.
func (s *script) told() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.status == nil:
		return ""
	case s.status.GetPluginRegistered():
		return "registered"
	}
	return s.status.GetError()
}

// world is a node with drivers.
type world struct {
	t   *testing.T
	dir string
	api *controllerstest.API
	*dra.Manager
	stop func()
}

func newWorld(t *testing.T, o dra.Options) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "dra") // paths of sockets must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	w := &world{t: t, dir: dir, api: controllerstest.Start(t, controllerstest.Options{Kinds: resource.Kinds(resource.Options{})})}
	w.start(o)
	t.Cleanup(func() { w.stop() })
	return w
}

// start runs a kubelet's manager of drivers, which stop ends.
func (w *world) start(o dra.Options) {
	w.t.Helper()
	m, err := dra.New(w.dir, "n", w.api, o)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	w.Manager = m
	w.stop = func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
		w.stop = func() {}
	}
}

// serve starts a driver, and waits until its registrar was told how that went.
func (w *world) serve(name string, changes ...func(*script)) *script {
	w.t.Helper()
	s := &script{name: name, endpoint: filepath.Join(w.dir, name+".sock"), kind: registration.DRAPlugin, versions: []string{drav1.DRAPluginService}}
	for _, change := range changes {
		change(s)
	}
	w.listen(s)
	w.until("the registration of "+name, func() bool { return s.told() != "" })
	return s
}

// listen serves a driver and its registrar until the end of the test.
func (w *world) listen(s *script) (stop func()) {
	w.t.Helper()
	at := filepath.Join(w.dir, "plugins_registry", s.name+"-reg.sock")
	if err := os.MkdirAll(filepath.Dir(at), 0o750); err != nil {
		w.t.Fatal(err)
	}
	var servers []*grpc.Server
	var running sync.WaitGroup
	for _, path := range []string{s.endpoint, at} {
		_ = os.Remove(path)
		listener, err := net.Listen("unix", path)
		if err != nil {
			w.t.Fatal(err)
		}
		server := grpc.NewServer()
		drav1.RegisterDRAPluginServer(server, s)
		registration.RegisterRegistrationServer(server, s)
		running.Go(func() { _ = server.Serve(listener) })
		servers = append(servers, server)
	}
	var once sync.Once
	stop = func() {
		once.Do(func() {
			for _, server := range servers {
				server.Stop()
			}
			running.Wait()
		})
	}
	w.t.Cleanup(stop)
	return stop
}

func (w *world) until(what string, happened func() bool) {
	w.t.Helper()
	for range 3000 {
		if happened() {
			return
		}
		time.Sleep(10 * time.Millisecond) // another goroutine, over a socket
	}
	w.t.Fatalf("%s did not happen", what)
}

// claim stores a claim with a device of each driver, reserved for pods.
func (w *world) claim(name string, drivers []string, pods ...*corev1.Pod) *resourcev1.ResourceClaim {
	w.t.Helper()
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	c.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: int64(max(len(drivers), 1))}}}
	c = controllerstest.Add(w.t, w.api, c)
	if drivers != nil {
		c.Status.Allocation = &resourcev1.AllocationResult{}
	}
	for i, driver := range drivers {
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results, resourcev1.DeviceRequestAllocationResult{Request: "r", Driver: driver, Pool: "n", Device: fmt.Sprint("gpu-", i)})
	}
	for _, p := range pods {
		c.Status.ReservedFor = append(c.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: p.Name, UID: p.UID})
	}
	updated, err := w.api.Update(w.t.Context(), target(c, "status"), c, metav1.UpdateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return updated.(*resourcev1.ResourceClaim)
}

func target(c *resourcev1.ResourceClaim, subresource string) client.Target {
	return client.Target{Resource: resourcev1.SchemeGroupVersion.WithResource("resourceclaims"), Namespace: c.Namespace, Name: c.Name, Subresource: subresource}
}

// pod returns a pod that uses claims; its container wants each as a whole, and of the first the request "r", too.
func pod(name string, claims ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)}}
	c := corev1.Container{Name: "main"}
	for _, of := range claims {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: of, ResourceClaimName: &of})
		c.Resources.Claims = append(c.Resources.Claims, corev1.ResourceClaim{Name: of})
	}
	p.Spec.Containers = []corev1.Container{c, {Name: "part", Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "x", Request: "r"}}}},
		{Name: "other", Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "x", Request: "q"}}}}, {Name: "none"}}
	return p
}

func (w *world) prepare(p *corev1.Pod, want string) {
	w.t.Helper()
	got := "done"
	if err := w.Prepare(w.t.Context(), p); err != nil {
		got = err.Error()
	}
	if !same(got, want) {
		w.t.Errorf("preparing for %s: got  %s\nwant %s", p.Name, got, want)
	}
}

func (w *world) release(p *corev1.Pod, want string) {
	w.t.Helper()
	got := "done"
	if err := w.Release(w.t.Context(), p.UID); err != nil {
		got = err.Error()
	}
	if !same(got, want) {
		w.t.Errorf("releasing %s: got  %s\nwant %s", p.Name, got, want)
	}
}

// same reports whether a text is the wanted one, of which "…" leaves the rest open.
func same(got, want string) bool {
	beginning, open := strings.CutSuffix(want, "…")
	return got == want || open && strings.HasPrefix(got, beginning)
}

func equal(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got  %s\nwant %s", what, got, want)
	}
}
