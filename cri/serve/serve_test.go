package serve_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	v1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/serve"
	"github.com/keelson-dev/keelson/cri/simulated"
	"github.com/keelson-dev/keelson/cri/streams"
)

// open serves a runtime and returns bare clients, as crictl and other kubelets have them.
func open(t testing.TB, runtime serve.Runtime) (v1.RuntimeServiceClient, v1.ImageServiceClient) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cri.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- serve.New(runtime).Run(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	conn, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return v1.NewRuntimeServiceClient(conn), v1.NewImageServiceClient(conn)
}

// pod makes a sandbox with a container that runs and one that does not.
func pod(t *testing.T, runtime v1.RuntimeServiceClient, images v1.ImageServiceClient) (sandbox, running, created string) {
	t.Helper()
	config := &v1.PodSandboxConfig{Metadata: &v1.PodSandboxMetadata{Name: "a", Namespace: "b", Uid: "c"}}
	s, err := runtime.RunPodSandbox(t.Context(), &v1.RunPodSandboxRequest{Config: config})
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := images.PullImage(t.Context(), &v1.PullImageRequest{Image: &v1.ImageSpec{Image: "app"}})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, name := range []string{"running", "created"} {
		c, err := runtime.CreateContainer(t.Context(), &v1.CreateContainerRequest{
			PodSandboxId: s.GetPodSandboxId(), SandboxConfig: config,
			Config: &v1.ContainerConfig{Metadata: &v1.ContainerMetadata{Name: name}, Image: &v1.ImageSpec{Image: pulled.GetImageRef()}},
		})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, c.GetContainerId())
	}
	if _, err := runtime.StartContainer(t.Context(), &v1.StartContainerRequest{ContainerId: ids[0]}); err != nil {
		t.Fatal(err)
	}
	return s.GetPodSandboxId(), ids[0], ids[1]
}

// TestStateFilters: clients of CRI ask for states, which package cri does not.
func TestStateFilters(t *testing.T) {
	r := simulated.New(simulated.Options{})
	defer r.Close()
	runtime, images := open(t, r)
	sandbox, running, created := pod(t, runtime, images)
	for state, want := range map[v1.ContainerState]string{
		v1.ContainerState_CONTAINER_RUNNING: running, v1.ContainerState_CONTAINER_CREATED: created, v1.ContainerState_CONTAINER_EXITED: "",
	} {
		list, err := runtime.ListContainers(t.Context(), &v1.ListContainersRequest{Filter: &v1.ContainerFilter{State: &v1.ContainerStateValue{State: state}}})
		got := ""
		for _, c := range list.GetContainers() {
			got += c.GetId()
		}
		if err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", state, got, err, want)
		}
	}
	for state, want := range map[v1.PodSandboxState]string{v1.PodSandboxState_SANDBOX_READY: sandbox, v1.PodSandboxState_SANDBOX_NOTREADY: ""} {
		list, err := runtime.ListPodSandbox(t.Context(), &v1.ListPodSandboxRequest{Filter: &v1.PodSandboxFilter{State: &v1.PodSandboxStateValue{State: state}}})
		got := ""
		for _, s := range list.GetItems() {
			got += s.GetId()
		}
		if err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", state, got, err, want)
		}
	}
}

// TestOneOfEach: calls for one container, sandbox or image that package cri has lists for.
func TestOneOfEach(t *testing.T) {
	r := simulated.New(simulated.Options{})
	defer r.Close()
	runtime, images := open(t, r)
	sandbox, running, created := pod(t, runtime, images)
	stats, err := runtime.ContainerStats(t.Context(), &v1.ContainerStatsRequest{ContainerId: running})
	if err != nil || stats.GetStats().GetAttributes().GetId() != running || stats.GetStats().GetCpu().GetUsageNanoCores().GetValue() == 0 {
		t.Errorf("ContainerStats: %v, %v", stats, err)
	}
	for _, id := range []string{created, "", "unknown"} {
		if stats, err := runtime.ContainerStats(t.Context(), &v1.ContainerStatsRequest{ContainerId: id}); status.Code(err) != codes.NotFound {
			t.Errorf("ContainerStats of %q: %v, %v", id, stats, err)
		}
	}
	podStats, err := runtime.PodSandboxStats(t.Context(), &v1.PodSandboxStatsRequest{PodSandboxId: sandbox})
	if err != nil || podStats.GetStats().GetAttributes().GetId() != sandbox || len(podStats.GetStats().GetLinux().GetContainers()) != 1 {
		t.Errorf("PodSandboxStats: %v, %v", podStats, err)
	}
	if _, err := runtime.PodSandboxStats(t.Context(), &v1.PodSandboxStatsRequest{}); status.Code(err) != codes.NotFound {
		t.Errorf("PodSandboxStats of none: %v", err)
	}
	for name, want := range map[string]int{"app": 1, "other": 0, "": 1} {
		list, err := images.ListImages(t.Context(), &v1.ListImagesRequest{Filter: &v1.ImageFilter{Image: &v1.ImageSpec{Image: name}}})
		if err != nil || len(list.GetImages()) != want {
			t.Errorf("ListImages of %q: %v, %v", name, list, err)
		}
	}
	none, err := images.ImageStatus(t.Context(), &v1.ImageStatusRequest{Image: &v1.ImageSpec{Image: "other"}})
	if err != nil || none.GetImage() != nil {
		t.Errorf("ImageStatus of an image that is not there: %v, %v", none, err)
	}
}

// streaming is a simulated runtime with URLs for its streams.
type streaming struct {
	*simulated.Runtime
	cri.Streamer
}

// TestEmptyRequests: whatever is missing from a request, the answer is an error and not a crash.
func TestEmptyRequests(t *testing.T) {
	r := simulated.New(simulated.Options{})
	defer r.Close()
	runtime, images := open(t, streaming{r, streams.New(r, streams.Options{})})
	ctx := t.Context()
	call := func(_ any, err error) error { return err }
	for name, err := range map[string]error{
		"RunPodSandbox":            call(runtime.RunPodSandbox(ctx, &v1.RunPodSandboxRequest{})),
		"CreateContainer":          call(runtime.CreateContainer(ctx, &v1.CreateContainerRequest{})),
		"StartContainer":           call(runtime.StartContainer(ctx, &v1.StartContainerRequest{})),
		"ContainerStatus":          call(runtime.ContainerStatus(ctx, &v1.ContainerStatusRequest{})),
		"PodSandboxStatus":         call(runtime.PodSandboxStatus(ctx, &v1.PodSandboxStatusRequest{})),
		"ExecSync":                 call(runtime.ExecSync(ctx, &v1.ExecSyncRequest{Timeout: -1 << 63})),
		"Exec":                     call(runtime.Exec(ctx, &v1.ExecRequest{})),
		"Attach":                   call(runtime.Attach(ctx, &v1.AttachRequest{})),
		"PortForward":              call(runtime.PortForward(ctx, &v1.PortForwardRequest{})),
		"UpdateContainerResources": call(runtime.UpdateContainerResources(ctx, &v1.UpdateContainerResourcesRequest{})),
		"ReopenContainerLog":       call(runtime.ReopenContainerLog(ctx, &v1.ReopenContainerLogRequest{})),
		"PullImage":                call(images.PullImage(ctx, &v1.PullImageRequest{})),
	} {
		if code := status.Code(err); code != codes.NotFound && code != codes.FailedPrecondition {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := runtime.StopContainer(ctx, &v1.StopContainerRequest{Timeout: 1<<63 - 1}); status.Code(err) != codes.NotFound {
		t.Errorf("StopContainer: %v", err)
	}
}

// plain is a runtime without any optional part.
type plain struct {
	cri.RuntimeService
	cri.ImageService
}

// TestOptionalParts: what a runtime does not have is Unimplemented.
func TestOptionalParts(t *testing.T) {
	r := simulated.New(simulated.Options{})
	defer r.Close()
	runtime, images := open(t, plain{r, r})
	ctx := t.Context()
	call := func(_ any, err error) error { return err }
	events := func() error {
		stream, err := runtime.GetContainerEvents(ctx, &v1.GetEventsRequest{})
		if err == nil {
			_, err = stream.Recv()
		}
		return err
	}
	for name, err := range map[string]error{
		"ListContainerStats":       call(runtime.ListContainerStats(ctx, &v1.ListContainerStatsRequest{})),
		"ListPodSandboxStats":      call(runtime.ListPodSandboxStats(ctx, &v1.ListPodSandboxStatsRequest{})),
		"Exec":                     call(runtime.Exec(ctx, &v1.ExecRequest{})),
		"Attach":                   call(runtime.Attach(ctx, &v1.AttachRequest{})),
		"PortForward":              call(runtime.PortForward(ctx, &v1.PortForwardRequest{})),
		"ReopenContainerLog":       call(runtime.ReopenContainerLog(ctx, &v1.ReopenContainerLogRequest{})),
		"UpdateContainerResources": call(runtime.UpdateContainerResources(ctx, &v1.UpdateContainerResourcesRequest{})),
		"RuntimeConfig":            call(runtime.RuntimeConfig(ctx, &v1.RuntimeConfigRequest{})),
		"UpdateRuntimeConfig":      call(runtime.UpdateRuntimeConfig(ctx, &v1.UpdateRuntimeConfigRequest{})),
		"ImageFsInfo":              call(images.ImageFsInfo(ctx, &v1.ImageFsInfoRequest{})),
		"GetContainerEvents":       events(),
	} {
		if status.Code(err) != codes.Unimplemented {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := runtime.Version(ctx, &v1.VersionRequest{}); err != nil {
		t.Error(err)
	}
}

// TestBrokenListener: a listener that fails is an error, and no goroutine waits forever.
func TestBrokenListener(t *testing.T) {
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "cri.sock"))
	if err != nil {
		t.Fatal(err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	r := simulated.New(simulated.Options{})
	defer r.Close()
	if err := serve.New(r).Run(t.Context(), listener); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Run: %v, want %v", err, net.ErrClosed)
	}
}
