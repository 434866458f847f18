package deviceplugin_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	devices "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/keelson-dev/keelson/kubelet"
	"github.com/keelson-dev/keelson/kubelet/deviceplugin"
	"github.com/keelson-dev/keelson/kubelet/internal/unixsocket"
)

const resourceName = "example.com/device"

// script is a plugin that does what it is told, over a real socket.
type script struct {
	devices.UnimplementedDevicePluginServer
	registration.UnimplementedRegistrationServer
	resource, socket string
	info             *registration.PluginInfo

	mu      sync.Mutex
	list    []*devices.Device
	changed chan struct{} // closed when the list changes
	options *devices.DevicePluginOptions
	answer  func(ids []string) (*devices.AllocateResponse, error)
	prefer  func(*devices.ContainerPreferredAllocationRequest) (*devices.PreferredAllocationResponse, error)
	start   func() error
	calls   []string
	status  *registration.RegistrationStatus
	stop    func()
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

func (s *script) GetDevicePluginOptions(context.Context, *devices.Empty) (*devices.DevicePluginOptions, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.options == nil {
		return nil, errors.New("no options")
	}
	return s.options, nil
}

func (s *script) ListAndWatch(_ *devices.Empty, stream grpc.ServerStreamingServer[devices.ListAndWatchResponse]) error {
	for {
		s.mu.Lock()
		list, changed := s.list, s.changed
		s.mu.Unlock()
		if list != nil {
			if err := stream.Send(&devices.ListAndWatchResponse{Devices: list}); err != nil {
				return err
			}
		}
		select {
		case <-stream.Context().Done():
			return nil
		case <-changed:
		}
	}
}

func (s *script) GetPreferredAllocation(_ context.Context, r *devices.PreferredAllocationRequest) (*devices.PreferredAllocationResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := r.GetContainerRequests()[0]
	s.calls = append(s.calls, fmt.Sprintf("prefer %d of %v with %v", one.GetAllocationSize(), one.GetAvailableDeviceIDs(), one.GetMustIncludeDeviceIDs()))
	return s.prefer(one)
}

func (s *script) Allocate(ctx context.Context, r *devices.AllocateRequest) (*devices.AllocateResponse, error) {
	s.mu.Lock()
	ids := r.GetContainerRequests()[0].GetDevicesIds()
	s.calls = append(s.calls, "allocate "+strings.Join(ids, " "))
	answer := s.answer
	s.mu.Unlock()
	if answer != nil {
		return answer(ids)
	}
	return respond(&devices.ContainerAllocateResponse{Envs: map[string]string{"DEVICES": strings.Join(ids, ",")}}), ctx.Err()
}

func respond(all ...*devices.ContainerAllocateResponse) *devices.AllocateResponse {
	return &devices.AllocateResponse{ContainerResponses: all}
}

func (s *script) PreStartContainer(_ context.Context, r *devices.PreStartContainerRequest) (*devices.PreStartContainerResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, "start "+strings.Join(r.GetDevicesIds(), " "))
	if s.start != nil {
		return nil, s.start()
	}
	return &devices.PreStartContainerResponse{}, nil
}

func (s *script) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.info, nil
}

func (s *script) NotifyRegistrationStatus(_ context.Context, status *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = status
	return &registration.RegistrationStatusResponse{}, nil
}

// told returns what the plugin was told of its registration.
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

// lists makes the plugin list devices; those whose names end with "!" are unhealthy.
func (s *script) lists(ids ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = []*devices.Device{}
	for _, id := range ids {
		d := &devices.Device{ID: id, Health: devices.Healthy}
		if name, ill := strings.CutSuffix(id, "!"); ill {
			d.ID, d.Health = name, devices.Unhealthy
		}
		if at := strings.IndexByte(d.GetID(), '@'); at > 0 && at+1 < len(d.GetID()) {
			d.Topology = &devices.TopologyInfo{Nodes: []*devices.NUMANode{{ID: int64(d.GetID()[at+1] - '0')}}}
		}
		s.list = append(s.list, d)
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// world is a node with plugins.
type world struct {
	t   *testing.T
	dir string
	*deviceplugin.Plugins
	stop func()

	mu     sync.Mutex
	synced []types.UID
	told   int
}

func newWorld(t *testing.T, o deviceplugin.Options) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "dp") // elsewhere than on Linux, paths of sockets must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return newWorldIn(t, dir, o)
}

func newWorldIn(t *testing.T, dir string, o deviceplugin.Options) *world {
	t.Helper()
	w := &world{t: t, dir: dir}
	o.Changed = func() { w.mu.Lock(); defer w.mu.Unlock(); w.told++ }
	o.Sync = func(uid types.UID) { w.mu.Lock(); defer w.mu.Unlock(); w.synced = append(w.synced, uid) }
	w.start(o)
	t.Cleanup(func() { w.stop() })
	return w
}

// start runs a kubelet's plugins, which stop ends.
func (w *world) start(o deviceplugin.Options) {
	w.t.Helper()
	p, err := deviceplugin.New(w.dir, o)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	w.Plugins = p
	w.stop = func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
		w.stop = func() {}
	}
}

// path is in the directory of plugins.
func (w *world) path(name string) string { return filepath.Join(w.dir, "device-plugins", name) }

// serve starts a plugin with devices, without registering it.
func (w *world) serve(resource, socket string, ids ...string) *script {
	w.t.Helper()
	s := &script{resource: resource, socket: socket, options: &devices.DevicePluginOptions{}, changed: make(chan struct{})}
	s.info = &registration.PluginInfo{Type: registration.DevicePlugin, Name: resource, SupportedVersions: []string{devices.Version}}
	s.lists(ids...)
	w.until("the directory of sockets", func() bool { _, err := os.Stat(filepath.Dir(socket)); return err == nil })
	listener, err := unixsocket.Listen(socket)
	if err != nil {
		w.t.Fatal(err)
	}
	server := grpc.NewServer()
	devices.RegisterDevicePluginServer(server, s)
	registration.RegisterRegistrationServer(server, s)
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	s.stop = sync.OnceFunc(func() { server.Stop(); <-done })
	w.t.Cleanup(s.stop)
	return s
}

// register has a plugin register at the kubelet, and returns how that went.
func (w *world) register(r *devices.RegisterRequest) string {
	w.t.Helper()
	w.until("the kubelet's socket", func() bool { _, err := os.Stat(w.path("kubelet.sock")); return err == nil })
	conn := dial(w.t, w.path("kubelet.sock"))
	defer func() { _ = conn.Close() }()
	if _, err := devices.NewRegistrationClient(conn).Register(w.t.Context(), r, grpc.WaitForReady(true)); err != nil {
		return err.Error()
	}
	return "registered"
}

// plugin starts and registers a plugin, and waits until its devices are known.
func (w *world) plugin(resource string, ids ...string) *script {
	w.t.Helper()
	name := strings.NewReplacer("/", "-", ".", "-").Replace(resource) + ".sock"
	w.until("the kubelet's socket", func() bool { _, err := os.Stat(w.path("kubelet.sock")); return err == nil })
	s := w.serve(resource, w.path(name), ids...)
	w.enroll(s, len(ids))
	return s
}

// enroll registers a plugin and waits until its devices are known.
func (w *world) enroll(s *script, n int) {
	w.t.Helper()
	equal(w.t, "registration", w.register(&devices.RegisterRequest{Version: devices.Version, Endpoint: filepath.Base(s.socket), ResourceName: s.resource}), "registered")
	w.until("the list of devices", func() bool {
		have, listed := w.Resources().Capacity[corev1.ResourceName(s.resource)]
		return listed && have.Value() == int64(n)
	})
}

// counts waits until the node's capacity and allocatable are as wanted, such as "3/2"; "-" is absence.
func (w *world) counts(resource, want string) {
	w.t.Helper()
	var got string
	for range 3000 {
		if got = w.count(resource); got == want {
			return
		}
		time.Sleep(10 * time.Millisecond) // another goroutine, over a socket
	}
	w.t.Fatalf("%s: got %s, want %s", resource, got, want)
}

func (w *world) count(resource string) string {
	found := w.Resources()
	capacity, listed := found.Capacity[corev1.ResourceName(resource)]
	if !listed {
		return "-"
	}
	allocatable := found.Allocatable[corev1.ResourceName(resource)]
	return fmt.Sprintf("%d/%d", capacity.Value(), allocatable.Value())
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

// container wants a number of devices, or of others: "main 2", "init 1 example.com/other".
func container(spec string) corev1.Container {
	fields := strings.Fields(spec)
	c := corev1.Container{Name: fields[0]}
	for i := 1; i < len(fields); i += 2 {
		if c.Resources.Limits == nil {
			c.Resources.Limits = corev1.ResourceList{}
		}
		name := resourceName
		if i+1 < len(fields) {
			name = fields[i+1]
		}
		c.Resources.Limits[corev1.ResourceName(name)] = resource.MustParse(fields[i])
	}
	c.Resources.Requests = c.Resources.Limits
	return c
}

// pod has containers; those whose names begin with "init" are init containers, with "side" sidecars.
func pod(name string, containers ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)}}
	for _, spec := range containers {
		c := container(spec)
		switch {
		case strings.HasPrefix(c.Name, "side"):
			c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
			fallthrough
		case strings.HasPrefix(c.Name, "init"):
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		default:
			p.Spec.Containers = append(p.Spec.Containers, c)
		}
	}
	return p
}

// admit admits and prepares a pod, and says how that went.
func (w *world) admit(p *corev1.Pod, want string) {
	w.t.Helper()
	got := "admitted"
	if refusal := w.Admit(p); refusal != nil {
		got = refusal.Reason + ": " + refusal.Message
	} else if err := w.Prepare(w.t.Context(), p); err != nil {
		got = err.Error()
		var refusal *kubelet.Refusal
		if errors.As(err, &refusal) {
			got = "later " + refusal.Reason + ": " + refusal.Message
		}
	}
	if !same(got, want) {
		w.t.Errorf("%s: got  %s\nwant %s", p.Name, got, want)
	}
	if got != "admitted" {
		w.release(p)
	}
}

func (w *world) release(p *corev1.Pod) {
	w.t.Helper()
	if err := w.Release(w.t.Context(), p.UID); err != nil {
		w.t.Error(err)
	}
}

// has returns the devices of a pod's containers.
func (w *world) has(p *corev1.Pod) string {
	w.t.Helper()
	var all []string
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		got, err := w.Container(w.t.Context(), p, &c)
		if err != nil {
			all = append(all, c.Name+": "+err.Error())
			continue
		}
		for _, e := range got.Env {
			all = append(all, c.Name+" "+e.Name+"="+e.Value)
		}
	}
	return strings.Join(all, "; ")
}

// same reports whether a text is the wanted one, of which "…" leaves the rest open.
func same(got, want string) bool {
	beginning, open := strings.CutSuffix(want, "…")
	return got == want || open && strings.HasPrefix(got, beginning)
}

func equal(t *testing.T, what, got, want string) {
	t.Helper()
	if !same(got, want) {
		t.Errorf("%s: got  %s\nwant %s", what, got, want)
	}
}
