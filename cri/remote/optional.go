package remote

import (
	"context"

	"google.golang.org/grpc"
	v1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/internal/wire"
)

// ListContainerStats returns the usage of the matching containers.
func (r *Runtime) ListContainerStats(ctx context.Context, filter cri.Filter) ([]cri.ContainerStats, error) {
	selection := wire.EncodeContainerStatsFilter(filter)
	response, err := r.runtime.ListContainerStats(ctx, &v1.ListContainerStatsRequest{Filter: selection})
	items := response.GetStats()
	if tooLong(err) {
		items, err = streamed(err, func() (grpc.ServerStreamingClient[v1.StreamContainerStatsResponse], error) {
			return r.runtime.StreamContainerStats(ctx, &v1.StreamContainerStatsRequest{Filter: selection})
		}, (*v1.StreamContainerStatsResponse).GetContainerStats)
	}
	if err != nil {
		return nil, r.failed(ctx, err)
	}
	list := make([]cri.ContainerStats, 0, len(items))
	for _, item := range items {
		list = append(list, wire.DecodeContainerStats(item))
	}
	return list, nil
}

// ListSandboxStats returns the usage of the matching sandboxes.
func (r *Runtime) ListSandboxStats(ctx context.Context, filter cri.Filter) ([]cri.SandboxStats, error) {
	selection := wire.EncodeSandboxStatsFilter(filter)
	response, err := r.runtime.ListPodSandboxStats(ctx, &v1.ListPodSandboxStatsRequest{Filter: selection})
	items := response.GetStats()
	if tooLong(err) {
		items, err = streamed(err, func() (grpc.ServerStreamingClient[v1.StreamPodSandboxStatsResponse], error) {
			return r.runtime.StreamPodSandboxStats(ctx, &v1.StreamPodSandboxStatsRequest{Filter: selection})
		}, (*v1.StreamPodSandboxStatsResponse).GetPodSandboxStats)
	}
	if err != nil {
		return nil, r.failed(ctx, err)
	}
	list := make([]cri.SandboxStats, 0, len(items))
	for _, item := range items {
		list = append(list, wire.DecodeSandboxStats(item))
	}
	return list, nil
}

// Exec prepares a command's streams.
func (r *Runtime) Exec(ctx context.Context, request cri.ExecRequest) (string, error) {
	response, err := r.runtime.Exec(ctx, &v1.ExecRequest{
		ContainerId: request.ContainerID, Cmd: request.Command,
		Stdin: request.Stdin, Stdout: request.Stdout, Stderr: request.Stderr, Tty: request.TTY,
	})
	return response.GetUrl(), r.failed(ctx, err)
}

// Attach prepares the streams of a container's own process.
func (r *Runtime) Attach(ctx context.Context, request cri.AttachRequest) (string, error) {
	response, err := r.runtime.Attach(ctx, &v1.AttachRequest{
		ContainerId: request.ContainerID,
		Stdin:       request.Stdin, Stdout: request.Stdout, Stderr: request.Stderr, Tty: request.TTY,
	})
	return response.GetUrl(), r.failed(ctx, err)
}

// PortForward prepares connections to a sandbox's ports.
func (r *Runtime) PortForward(ctx context.Context, sandboxID string, ports []int32) (string, error) {
	response, err := r.runtime.PortForward(ctx, &v1.PortForwardRequest{PodSandboxId: sandboxID, Port: ports})
	return response.GetUrl(), r.failed(ctx, err)
}

// ReopenContainerLog makes a container write to a new file at its log path.
func (r *Runtime) ReopenContainerLog(ctx context.Context, id string) error {
	_, err := r.runtime.ReopenContainerLog(ctx, &v1.ReopenContainerLogRequest{ContainerId: id})
	return r.failed(ctx, err)
}

// UpdateContainerResources changes the limits of a container.
func (r *Runtime) UpdateContainerResources(ctx context.Context, id string, resources cri.Resources) error {
	_, err := r.runtime.UpdateContainerResources(ctx, &v1.UpdateContainerResourcesRequest{ContainerId: id, Linux: wire.EncodeResources(resources)})
	return r.failed(ctx, err)
}

// CgroupDriver returns how cgroups are managed. Without support in the runtime it fails with cri.ErrUnsupported.
func (r *Runtime) CgroupDriver(ctx context.Context) (cri.CgroupDriver, error) {
	response, err := r.runtime.RuntimeConfig(ctx, &v1.RuntimeConfigRequest{})
	if err != nil {
		return 0, r.failed(ctx, err)
	}
	return wire.DecodeCgroupDriver(response.GetLinux().GetCgroupDriver()), nil
}

// UpdateRuntimeConfig passes the node's pod CIDR to the runtime.
func (r *Runtime) UpdateRuntimeConfig(ctx context.Context, podCIDR string) error {
	_, err := r.runtime.UpdateRuntimeConfig(ctx, &v1.UpdateRuntimeConfigRequest{
		RuntimeConfig: &v1.RuntimeConfig{NetworkConfig: &v1.NetworkConfig{PodCidr: podCIDR}},
	})
	return r.failed(ctx, err)
}
