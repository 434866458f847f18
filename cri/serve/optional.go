package serve

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	v1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/internal/wire"
)

func (s *runtimeServer) GetContainerEvents(_ *v1.GetEventsRequest, out grpc.ServerStreamingServer[v1.ContainerEventResponse]) error {
	source, err := part[cri.EventSource](s.runtime, "events")
	if err != nil {
		return err
	}
	stream, err := source.Events(out.Context())
	if err != nil {
		return wire.EncodeError(err)
	}
	defer stream.Close()
	for {
		events, err := stream.Next(out.Context())
		if err != nil {
			return wire.EncodeError(err)
		}
		for _, e := range events {
			if err := out.Send(wire.EncodeEvent(e)); err != nil {
				return err //nolint:wrapcheck // it is a status already
			}
		}
	}
}

func (s *runtimeServer) ListContainerStats(ctx context.Context, r *v1.ListContainerStatsRequest) (*v1.ListContainerStatsResponse, error) {
	reader, err := part[cri.StatsReader](s.runtime, "statistics")
	if err != nil {
		return nil, err
	}
	list, err := reader.ListContainerStats(ctx, wire.DecodeContainerStatsFilter(r.GetFilter()))
	response := &v1.ListContainerStatsResponse{}
	for _, item := range list {
		response.Stats = append(response.Stats, wire.EncodeContainerStats(item))
	}
	return answer(response, err)
}

func (s *runtimeServer) ContainerStats(ctx context.Context, r *v1.ContainerStatsRequest) (*v1.ContainerStatsResponse, error) {
	list, err := s.ListContainerStats(ctx, &v1.ListContainerStatsRequest{Filter: &v1.ContainerStatsFilter{Id: r.GetContainerId()}})
	if err != nil {
		return nil, err
	}
	if r.GetContainerId() == "" || len(list.GetStats()) == 0 {
		return nil, wire.EncodeError(fmt.Errorf("container %q: %w", r.GetContainerId(), cri.ErrNotFound))
	}
	return &v1.ContainerStatsResponse{Stats: list.GetStats()[0]}, nil
}

func (s *runtimeServer) ListPodSandboxStats(ctx context.Context, r *v1.ListPodSandboxStatsRequest) (*v1.ListPodSandboxStatsResponse, error) {
	reader, err := part[cri.StatsReader](s.runtime, "statistics")
	if err != nil {
		return nil, err
	}
	list, err := reader.ListSandboxStats(ctx, wire.DecodeSandboxStatsFilter(r.GetFilter()))
	response := &v1.ListPodSandboxStatsResponse{}
	for _, item := range list {
		response.Stats = append(response.Stats, wire.EncodeSandboxStats(item))
	}
	return answer(response, err)
}

func (s *runtimeServer) PodSandboxStats(ctx context.Context, r *v1.PodSandboxStatsRequest) (*v1.PodSandboxStatsResponse, error) {
	list, err := s.ListPodSandboxStats(ctx, &v1.ListPodSandboxStatsRequest{Filter: &v1.PodSandboxStatsFilter{Id: r.GetPodSandboxId()}})
	if err != nil {
		return nil, err
	}
	if r.GetPodSandboxId() == "" || len(list.GetStats()) == 0 {
		return nil, wire.EncodeError(fmt.Errorf("sandbox %q: %w", r.GetPodSandboxId(), cri.ErrNotFound))
	}
	return &v1.PodSandboxStatsResponse{Stats: list.GetStats()[0]}, nil
}

func (s *runtimeServer) Exec(ctx context.Context, r *v1.ExecRequest) (*v1.ExecResponse, error) {
	streamer, err := part[cri.Streamer](s.runtime, "streaming")
	if err != nil {
		return nil, err
	}
	url, err := streamer.Exec(ctx, cri.ExecRequest{
		ContainerID: r.GetContainerId(), Command: r.GetCmd(),
		Streams: cri.Streams{Stdin: r.GetStdin(), Stdout: r.GetStdout(), Stderr: r.GetStderr(), TTY: r.GetTty()},
	})
	return answer(&v1.ExecResponse{Url: url}, err)
}

func (s *runtimeServer) Attach(ctx context.Context, r *v1.AttachRequest) (*v1.AttachResponse, error) {
	streamer, err := part[cri.Streamer](s.runtime, "streaming")
	if err != nil {
		return nil, err
	}
	url, err := streamer.Attach(ctx, cri.AttachRequest{
		ContainerID: r.GetContainerId(),
		Streams:     cri.Streams{Stdin: r.GetStdin(), Stdout: r.GetStdout(), Stderr: r.GetStderr(), TTY: r.GetTty()},
	})
	return answer(&v1.AttachResponse{Url: url}, err)
}

func (s *runtimeServer) PortForward(ctx context.Context, r *v1.PortForwardRequest) (*v1.PortForwardResponse, error) {
	streamer, err := part[cri.Streamer](s.runtime, "streaming")
	if err != nil {
		return nil, err
	}
	url, err := streamer.PortForward(ctx, r.GetPodSandboxId(), r.GetPort())
	return answer(&v1.PortForwardResponse{Url: url}, err)
}

func (s *runtimeServer) ReopenContainerLog(ctx context.Context, r *v1.ReopenContainerLogRequest) (*v1.ReopenContainerLogResponse, error) {
	reopener, err := part[cri.LogReopener](s.runtime, "reopening logs")
	if err != nil {
		return nil, err
	}
	return answer(&v1.ReopenContainerLogResponse{}, reopener.ReopenContainerLog(ctx, r.GetContainerId()))
}

func (s *runtimeServer) UpdateContainerResources(ctx context.Context, r *v1.UpdateContainerResourcesRequest) (*v1.UpdateContainerResourcesResponse, error) {
	resizer, err := part[cri.Resizer](s.runtime, "resizing")
	if err != nil {
		return nil, err
	}
	return answer(&v1.UpdateContainerResourcesResponse{}, resizer.UpdateContainerResources(ctx, r.GetContainerId(), wire.DecodeResources(r.GetLinux())))
}

func (s *runtimeServer) RuntimeConfig(ctx context.Context, _ *v1.RuntimeConfigRequest) (*v1.RuntimeConfigResponse, error) {
	configured, err := part[cri.Configured](s.runtime, "configuration")
	if err != nil {
		return nil, err
	}
	driver, err := configured.CgroupDriver(ctx)
	return answer(&v1.RuntimeConfigResponse{Linux: &v1.LinuxRuntimeConfiguration{CgroupDriver: wire.EncodeCgroupDriver(driver)}}, err)
}

func (s *runtimeServer) UpdateRuntimeConfig(ctx context.Context, r *v1.UpdateRuntimeConfigRequest) (*v1.UpdateRuntimeConfigResponse, error) {
	configured, err := part[cri.Configured](s.runtime, "configuration")
	if err != nil {
		return nil, err
	}
	return answer(&v1.UpdateRuntimeConfigResponse{}, configured.UpdateRuntimeConfig(ctx, r.GetRuntimeConfig().GetNetworkConfig().GetPodCidr()))
}
