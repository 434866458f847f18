package serve

import (
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// chunk is the size of one message of a streamed list, in bytes, unless one item is larger.
const chunk = 1 << 20

// send streams the items of a complete list, as CRI defines for lists that do not fit into one message (KEP-5825).
func send[T proto.Message, M any](out grpc.ServerStreamingServer[M], items []T, wrap func([]T) *M) error {
	for first := 0; first < len(items); {
		next, size := first+1, proto.Size(items[first])
		for next < len(items) && size < chunk {
			size += proto.Size(items[next])
			next++
		}
		if err := out.Send(wrap(items[first:next])); err != nil {
			return err //nolint:wrapcheck // it is a status already
		}
		first = next
	}
	return nil
}

func (s *runtimeServer) StreamPodSandboxes(r *v1.StreamPodSandboxesRequest, out grpc.ServerStreamingServer[v1.StreamPodSandboxesResponse]) error {
	all, err := s.ListPodSandbox(out.Context(), &v1.ListPodSandboxRequest{Filter: r.GetFilter()})
	if err != nil {
		return err
	}
	return send(out, all.GetItems(), func(some []*v1.PodSandbox) *v1.StreamPodSandboxesResponse {
		return &v1.StreamPodSandboxesResponse{PodSandboxes: some}
	})
}

func (s *runtimeServer) StreamContainers(r *v1.StreamContainersRequest, out grpc.ServerStreamingServer[v1.StreamContainersResponse]) error {
	all, err := s.ListContainers(out.Context(), &v1.ListContainersRequest{Filter: r.GetFilter()})
	if err != nil {
		return err
	}
	return send(out, all.GetContainers(), func(some []*v1.Container) *v1.StreamContainersResponse {
		return &v1.StreamContainersResponse{Containers: some}
	})
}

func (s *runtimeServer) StreamContainerStats(r *v1.StreamContainerStatsRequest, out grpc.ServerStreamingServer[v1.StreamContainerStatsResponse]) error {
	all, err := s.ListContainerStats(out.Context(), &v1.ListContainerStatsRequest{Filter: r.GetFilter()})
	if err != nil {
		return err
	}
	return send(out, all.GetStats(), func(some []*v1.ContainerStats) *v1.StreamContainerStatsResponse {
		return &v1.StreamContainerStatsResponse{ContainerStats: some}
	})
}

func (s *runtimeServer) StreamPodSandboxStats(r *v1.StreamPodSandboxStatsRequest, out grpc.ServerStreamingServer[v1.StreamPodSandboxStatsResponse]) error {
	all, err := s.ListPodSandboxStats(out.Context(), &v1.ListPodSandboxStatsRequest{Filter: r.GetFilter()})
	if err != nil {
		return err
	}
	return send(out, all.GetStats(), func(some []*v1.PodSandboxStats) *v1.StreamPodSandboxStatsResponse {
		return &v1.StreamPodSandboxStatsResponse{PodSandboxStats: some}
	})
}

func (s *imageServer) StreamImages(r *v1.StreamImagesRequest, out grpc.ServerStreamingServer[v1.StreamImagesResponse]) error {
	all, err := s.ListImages(out.Context(), &v1.ListImagesRequest{Filter: r.GetFilter()})
	if err != nil {
		return err
	}
	return send(out, all.GetImages(), func(some []*v1.Image) *v1.StreamImagesResponse {
		return &v1.StreamImagesResponse{Images: some}
	})
}
