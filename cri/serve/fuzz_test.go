package serve_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	v1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/cri/serve"
	"github.com/keelson-dev/keelson/cri/simulated"
)

// raw sends and receives messages as they are on the wire.
type raw struct{}

func (raw) Name() string { return "proto" }

func (raw) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }

func (raw) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = slices.Clone(data)
	return nil
}

// method is a call of CRI that has one answer.
type method struct {
	path            string
	request, answer protoreflect.MessageType
}

func methods(t testing.TB) []method {
	t.Helper()
	var all []method
	services := v1.File_staging_src_k8s_io_cri_api_pkg_apis_runtime_v1_api_proto.Services()
	for i := range services.Len() {
		s := services.Get(i)
		for j := range s.Methods().Len() {
			m := s.Methods().Get(j)
			if m.IsStreamingServer() {
				continue
			}
			in, err := protoregistry.GlobalTypes.FindMessageByName(m.Input().FullName())
			out, err2 := protoregistry.GlobalTypes.FindMessageByName(m.Output().FullName())
			if err := errors.Join(err, err2); err != nil {
				t.Fatal(err)
			}
			all = append(all, method{"/" + string(s.FullName()) + "/" + string(m.Name()), in, out})
		}
	}
	return all
}

// call is a request as the fuzzer writes them one after the other: the method, two bytes of length, the message.
func call(t testing.TB, all []method, name string, message proto.Message) []byte {
	t.Helper()
	data, err := proto.Marshal(message)
	i := slices.IndexFunc(all, func(m method) bool { return m.path == "/runtime.v1."+name })
	if err != nil || i < 0 || len(data) > 1<<16-1 {
		t.Fatal(name, err, len(data))
	}
	return append([]byte{byte(i), byte(len(data) >> 8), byte(len(data))}, data...)
}

// next cuts the first call off.
func next(data []byte, all []method) (m method, message, rest []byte, ok bool) {
	if len(data) < 3 {
		return method{}, nil, nil, false
	}
	n := min(int(data[1])<<8|int(data[2]), len(data)-3)
	return all[int(data[0])%len(all)], data[3 : 3+n], data[3+n:], true
}

// served is a runtime behind a connection in memory.
func served(t *testing.T) *grpc.ClientConn {
	t.Helper()
	r := simulated.New(simulated.Options{})
	listener := bufconn.Listen(1 << 16)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- serve.New(r).Run(ctx, listener) }()
	conn, err := grpc.NewClient("passthrough:in.process", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		r.Close()
	})
	return conn
}

// story is a pod's life, as calls, with or without its end.
func story(t testing.TB, all []method, end bool, change func(*v1.PodSandboxConfig, *v1.ContainerConfig)) []byte {
	t.Helper()
	r := simulated.New(simulated.Options{})
	defer r.Close()
	pod := &v1.PodSandboxConfig{Metadata: &v1.PodSandboxMetadata{Name: "a", Namespace: "b", Uid: "c"}, Linux: &v1.LinuxPodSandboxConfig{}}
	container := &v1.ContainerConfig{Metadata: &v1.ContainerMetadata{Name: "x"}, Image: &v1.ImageSpec{Image: "app"}, Linux: &v1.LinuxContainerConfig{Resources: &v1.LinuxContainerResources{MemoryLimitInBytes: 1 << 30}}}
	change(pod, container)
	var data []byte
	add := func(name string, m proto.Message) { data = append(data, call(t, all, name, m)...) }
	add("RuntimeService/RunPodSandbox", &v1.RunPodSandboxRequest{Config: pod})
	add("ImageService/PullImage", &v1.PullImageRequest{Image: container.GetImage()})
	// Ids follow from names: the same pod elsewhere has the same.
	runtime, images := open(t, r)
	s, err := runtime.RunPodSandbox(t.Context(), &v1.RunPodSandboxRequest{Config: pod})
	if err != nil {
		return data
	}
	_, _ = images.PullImage(t.Context(), &v1.PullImageRequest{Image: container.GetImage()})
	create := &v1.CreateContainerRequest{PodSandboxId: s.GetPodSandboxId(), SandboxConfig: pod, Config: container}
	add("RuntimeService/CreateContainer", create)
	c, err := runtime.CreateContainer(t.Context(), create)
	if err != nil {
		return data
	}
	add("RuntimeService/StartContainer", &v1.StartContainerRequest{ContainerId: c.GetContainerId()})
	add("RuntimeService/UpdateContainerResources", &v1.UpdateContainerResourcesRequest{ContainerId: c.GetContainerId(), Linux: container.GetLinux().GetResources()})
	add("RuntimeService/ExecSync", &v1.ExecSyncRequest{ContainerId: c.GetContainerId(), Cmd: []string{"a"}, Timeout: 1})
	add("RuntimeService/ListContainers", &v1.ListContainersRequest{Filter: &v1.ContainerFilter{PodSandboxId: s.GetPodSandboxId()}})
	if end {
		add("RuntimeService/StopContainer", &v1.StopContainerRequest{ContainerId: c.GetContainerId(), Timeout: 1 << 62})
		add("RuntimeService/RemovePodSandbox", &v1.RemovePodSandboxRequest{PodSandboxId: s.GetPodSandboxId()})
	}
	return data
}

// FuzzCalls: whatever clients send in whatever order, an answer comes soon and is one that can be read; only what is no message is an
// internal error, and what the runtime lists afterwards hangs together.
func FuzzCalls(f *testing.F) {
	all := methods(f)
	for i := range all {
		f.Add([]byte{byte(i), 0, 0})
		f.Add([]byte{byte(i), 0, 4, 0x0a, 0x02, 0xff, 0xfe})
	}
	f.Add(story(f, all, true, func(*v1.PodSandboxConfig, *v1.ContainerConfig) {}))
	f.Add(story(f, all, false, func(_ *v1.PodSandboxConfig, c *v1.ContainerConfig) { c.Linux.Resources.MemoryLimitInBytes = -1 }))
	f.Add(story(f, all, false, func(p *v1.PodSandboxConfig, c *v1.ContainerConfig) { p.Metadata, c.Metadata = nil, nil }))
	f.Add(story(f, all, false, func(p *v1.PodSandboxConfig, c *v1.ContainerConfig) { c.Image, p.Linux, c.Linux = nil, nil, nil }))
	f.Add(story(f, all, false, func(p *v1.PodSandboxConfig, c *v1.ContainerConfig) {
		p.Linux.SecurityContext = &v1.LinuxSandboxSecurityContext{NamespaceOptions: &v1.NamespaceOption{Network: v1.NamespaceMode_NODE, Pid: 77}}
		c.Image = &v1.ImageSpec{Image: "@:/"}
	}))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<12 {
			return
		}
		conn := served(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		sent := 0
		for range 24 {
			m, message, rest, ok := next(data, all)
			if !ok {
				break
			}
			data, sent = rest, sent+len(message)
			var answer []byte
			err := conn.Invoke(ctx, m.path, &message, &answer, grpc.ForceCodec(raw{}))
			wrong := proto.Unmarshal(message, m.request.New().Interface()) != nil
			switch code := status.Code(err); {
			case code == codes.Unknown, code == codes.DeadlineExceeded, code == codes.Unavailable, (code == codes.Internal) != wrong:
				t.Fatalf("%s of %q: %v", m.path, message, err)
			case err == nil && proto.Unmarshal(answer, m.answer.New().Interface()) != nil:
				t.Errorf("%s of %q answers %q", m.path, message, answer)
			case len(answer) > 4096+64*sent:
				t.Errorf("%s of %q answers %d bytes, %d were sent until then", m.path, message, len(answer), sent)
			}
		}
		coherent(ctx, t, v1.NewRuntimeServiceClient(conn))
	})
}

// coherent holds that lists and statuses tell the same.
func coherent(ctx context.Context, t *testing.T, runtime v1.RuntimeServiceClient) {
	t.Helper()
	pods, err := runtime.ListPodSandbox(ctx, &v1.ListPodSandboxRequest{})
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, p := range pods.GetItems() {
		one, err := runtime.PodSandboxStatus(ctx, &v1.PodSandboxStatusRequest{PodSandboxId: p.GetId()})
		if err != nil || known[p.GetId()] || one.GetStatus().GetState() != p.GetState() || !proto.Equal(one.GetStatus().GetMetadata(), p.GetMetadata()) {
			t.Errorf("sandbox %v: %v, %v", p, one, err)
		}
		known[p.GetId()] = true
	}
	containers, err := runtime.ListContainers(ctx, &v1.ListContainersRequest{})
	if err != nil {
		t.Fatal(err)
	}
	limits := map[string]int64{}
	for _, c := range containers.GetContainers() {
		one, err := runtime.ContainerStatus(ctx, &v1.ContainerStatusRequest{ContainerId: c.GetId()})
		if err != nil || !known[c.GetPodSandboxId()] || one.GetStatus().GetState() != c.GetState() || !proto.Equal(one.GetStatus().GetMetadata(), c.GetMetadata()) {
			t.Errorf("container %v: %v, %v", c, one, err)
		}
		limits[c.GetId()] = one.GetStatus().GetResources().GetLinux().GetMemoryLimitInBytes()
	}
	stats, err := runtime.ListContainerStats(ctx, &v1.ListContainerStatsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range stats.GetStats() {
		limit, ok := limits[s.GetAttributes().GetId()]
		if available := s.GetMemory().GetAvailableBytes().GetValue(); !ok || available > uint64(max(limit, 0)) {
			t.Errorf("a container with a limit of %d has %d bytes left", limit, available)
		}
	}
}
