package serve

import (
	"context"
	"time"

	v1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/internal/wire"
)

// runtimeServer is CRI's RuntimeService, without the calls that package cri does not have.
type runtimeServer struct {
	v1.UnimplementedRuntimeServiceServer
	runtime cri.RuntimeService
}

func (s *runtimeServer) Version(ctx context.Context, _ *v1.VersionRequest) (*v1.VersionResponse, error) {
	version, err := s.runtime.Version(ctx)
	return answer(&v1.VersionResponse{
		Version: "0.1.0", RuntimeName: version.Name, RuntimeVersion: version.Version, RuntimeApiVersion: "v1",
	}, err)
}

func (s *runtimeServer) Status(ctx context.Context, _ *v1.StatusRequest) (*v1.StatusResponse, error) {
	status, err := s.runtime.Status(ctx)
	return answer(wire.EncodeStatus(status), err)
}

func (s *runtimeServer) RunPodSandbox(ctx context.Context, r *v1.RunPodSandboxRequest) (*v1.RunPodSandboxResponse, error) {
	id, err := s.runtime.RunPodSandbox(ctx, wire.DecodeSandboxConfig(r.GetConfig(), r.GetRuntimeHandler()))
	return answer(&v1.RunPodSandboxResponse{PodSandboxId: id}, err)
}

func (s *runtimeServer) StopPodSandbox(ctx context.Context, r *v1.StopPodSandboxRequest) (*v1.StopPodSandboxResponse, error) {
	return answer(&v1.StopPodSandboxResponse{}, s.runtime.StopPodSandbox(ctx, r.GetPodSandboxId()))
}

func (s *runtimeServer) RemovePodSandbox(ctx context.Context, r *v1.RemovePodSandboxRequest) (*v1.RemovePodSandboxResponse, error) {
	return answer(&v1.RemovePodSandboxResponse{}, s.runtime.RemovePodSandbox(ctx, r.GetPodSandboxId()))
}

func (s *runtimeServer) PodSandboxStatus(ctx context.Context, r *v1.PodSandboxStatusRequest) (*v1.PodSandboxStatusResponse, error) {
	status, err := s.runtime.SandboxStatus(ctx, r.GetPodSandboxId())
	return answer(&v1.PodSandboxStatusResponse{Status: wire.EncodeSandboxStatus(status)}, err)
}

func (s *runtimeServer) ListPodSandbox(ctx context.Context, r *v1.ListPodSandboxRequest) (*v1.ListPodSandboxResponse, error) {
	list, err := s.runtime.ListSandboxes(ctx, wire.DecodeSandboxFilter(r.GetFilter()))
	response := &v1.ListPodSandboxResponse{}
	for _, item := range list {
		message := wire.EncodeSandbox(item)
		if state := r.GetFilter().GetState(); state == nil || state.GetState() == message.GetState() {
			response.Items = append(response.Items, message)
		}
	}
	return answer(response, err)
}

func (s *runtimeServer) CreateContainer(ctx context.Context, r *v1.CreateContainerRequest) (*v1.CreateContainerResponse, error) {
	id, err := s.runtime.CreateContainer(ctx, r.GetPodSandboxId(), wire.DecodeContainerConfig(r.GetConfig()), wire.DecodeSandboxConfig(r.GetSandboxConfig(), ""))
	return answer(&v1.CreateContainerResponse{ContainerId: id}, err)
}

func (s *runtimeServer) StartContainer(ctx context.Context, r *v1.StartContainerRequest) (*v1.StartContainerResponse, error) {
	return answer(&v1.StartContainerResponse{}, s.runtime.StartContainer(ctx, r.GetContainerId()))
}

func (s *runtimeServer) StopContainer(ctx context.Context, r *v1.StopContainerRequest) (*v1.StopContainerResponse, error) {
	return answer(&v1.StopContainerResponse{}, s.runtime.StopContainer(ctx, r.GetContainerId(), seconds(r.GetTimeout())))
}

// seconds converts a client's number of seconds to a duration, limited to the longest one.
func seconds(n int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Second)
	return time.Duration(min(max(n, 0), most)) * time.Second
}

func (s *runtimeServer) RemoveContainer(ctx context.Context, r *v1.RemoveContainerRequest) (*v1.RemoveContainerResponse, error) {
	return answer(&v1.RemoveContainerResponse{}, s.runtime.RemoveContainer(ctx, r.GetContainerId()))
}

func (s *runtimeServer) ContainerStatus(ctx context.Context, r *v1.ContainerStatusRequest) (*v1.ContainerStatusResponse, error) {
	status, err := s.runtime.ContainerStatus(ctx, r.GetContainerId())
	return answer(&v1.ContainerStatusResponse{Status: wire.EncodeContainerStatus(status)}, err)
}

func (s *runtimeServer) ListContainers(ctx context.Context, r *v1.ListContainersRequest) (*v1.ListContainersResponse, error) {
	list, err := s.runtime.ListContainers(ctx, wire.DecodeContainerFilter(r.GetFilter()))
	response := &v1.ListContainersResponse{}
	for _, item := range list {
		message := wire.EncodeContainer(item)
		if state := r.GetFilter().GetState(); state == nil || state.GetState() == message.GetState() {
			response.Containers = append(response.Containers, message)
		}
	}
	return answer(response, err)
}

func (s *runtimeServer) ExecSync(ctx context.Context, r *v1.ExecSyncRequest) (*v1.ExecSyncResponse, error) {
	result, err := s.runtime.ExecSync(ctx, r.GetContainerId(), r.GetCmd(), seconds(r.GetTimeout()))
	return answer(&v1.ExecSyncResponse{Stdout: result.Stdout, Stderr: result.Stderr, ExitCode: result.ExitCode}, err)
}
