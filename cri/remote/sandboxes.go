package remote

import (
	"cmp"
	"context"
	"slices"

	"google.golang.org/grpc"
	v1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/internal/wire"
)

// Version names the runtime.
func (r *Runtime) Version(ctx context.Context) (cri.Version, error) {
	response, err := r.runtime.Version(ctx, &v1.VersionRequest{})
	if err != nil {
		return cri.Version{}, r.failed(ctx, err)
	}
	return cri.Version{Name: response.GetRuntimeName(), Version: response.GetRuntimeVersion()}, nil
}

// Status returns the runtime's status. A missing condition is not ready.
func (r *Runtime) Status(ctx context.Context) (cri.RuntimeStatus, error) {
	response, err := r.runtime.Status(ctx, &v1.StatusRequest{})
	if err != nil {
		return cri.RuntimeStatus{}, r.failed(ctx, err)
	}
	return wire.DecodeStatus(response), nil
}

// RunPodSandbox makes a sandbox and starts it.
func (r *Runtime) RunPodSandbox(ctx context.Context, config cri.SandboxConfig) (string, error) {
	response, err := r.runtime.RunPodSandbox(ctx, &v1.RunPodSandboxRequest{
		Config: wire.EncodeSandboxConfig(config), RuntimeHandler: config.RuntimeHandler,
	})
	return response.GetPodSandboxId(), r.failed(ctx, err)
}

// StopPodSandbox ends a sandbox's containers and network.
func (r *Runtime) StopPodSandbox(ctx context.Context, id string) error {
	_, err := r.runtime.StopPodSandbox(ctx, &v1.StopPodSandboxRequest{PodSandboxId: id})
	return r.gone(ctx, err)
}

// RemovePodSandbox removes a sandbox with its containers.
func (r *Runtime) RemovePodSandbox(ctx context.Context, id string) error {
	_, err := r.runtime.RemovePodSandbox(ctx, &v1.RemovePodSandboxRequest{PodSandboxId: id})
	if err = r.gone(ctx, err); err == nil {
		r.owners.forgetSandbox(id)
	}
	return err
}

// SandboxStatus describes one sandbox.
func (r *Runtime) SandboxStatus(ctx context.Context, id string) (cri.SandboxStatus, error) {
	response, err := r.runtime.PodSandboxStatus(ctx, &v1.PodSandboxStatusRequest{PodSandboxId: id})
	if err != nil {
		return cri.SandboxStatus{}, r.failed(ctx, err)
	}
	return wire.DecodeSandboxStatus(response.GetStatus()), nil
}

// ListSandboxes returns the sandboxes that match, newest first.
func (r *Runtime) ListSandboxes(ctx context.Context, filter cri.Filter) ([]cri.Sandbox, error) {
	selection := wire.EncodeSandboxFilter(filter)
	response, err := r.runtime.ListPodSandbox(ctx, &v1.ListPodSandboxRequest{Filter: selection})
	items := response.GetItems()
	if tooLong(err) {
		items, err = streamed(err, func() (grpc.ServerStreamingClient[v1.StreamPodSandboxesResponse], error) {
			return r.runtime.StreamPodSandboxes(ctx, &v1.StreamPodSandboxesRequest{Filter: selection})
		}, (*v1.StreamPodSandboxesResponse).GetPodSandboxes)
	}
	if err != nil {
		return nil, r.failed(ctx, err)
	}
	list := make([]cri.Sandbox, 0, len(items))
	for _, item := range items {
		list = append(list, wire.DecodeSandbox(item))
	}
	slices.SortStableFunc(list, func(a, b cri.Sandbox) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.Metadata.Attempt, a.Metadata.Attempt))
	})
	return list, nil
}
