package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/cri/internal/wire"
)

// execSlack is how long after its time-out to wait for the answer to ExecSync.
const execSlack = 5 * time.Second

// CreateContainer makes a container in a sandbox.
func (r *Runtime) CreateContainer(ctx context.Context, sandboxID string, config cri.ContainerConfig, sandbox cri.SandboxConfig) (string, error) {
	message, err := wire.EncodeContainerConfig(config)
	if err != nil {
		return "", err
	}
	response, err := r.runtime.CreateContainer(ctx, &v1.CreateContainerRequest{
		PodSandboxId: sandboxID, Config: message, SandboxConfig: wire.EncodeSandboxConfig(sandbox),
	})
	if err != nil {
		return "", r.failed(ctx, err)
	}
	r.owners.put(response.GetContainerId(), sandboxID)
	return response.GetContainerId(), nil
}

// StartContainer starts a container that was created.
func (r *Runtime) StartContainer(ctx context.Context, id string) error {
	_, err := r.runtime.StartContainer(ctx, &v1.StartContainerRequest{ContainerId: id})
	if code := status.Code(err); code != codes.Unknown && code != codes.Internal {
		return r.failed(ctx, err)
	}
	// Runtimes have no code for a container that was already started, but its state shows it.
	if c, statusErr := r.ContainerStatus(ctx, id); statusErr == nil && !c.StartedAt.IsZero() {
		return wire.Named(err, cri.ErrInvalid)
	}
	return r.failed(ctx, err)
}

// StopContainer ends a container. The grace period is rounded up to seconds.
func (r *Runtime) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	_, err := r.runtime.StopContainer(ctx, &v1.StopContainerRequest{ContainerId: id, Timeout: seconds(grace)})
	return r.failed(ctx, err)
}

// seconds rounds up, and takes what is negative for 0.
func seconds(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d-1)/time.Second) + 1
}

// RemoveContainer removes a container.
func (r *Runtime) RemoveContainer(ctx context.Context, id string) error {
	_, err := r.runtime.RemoveContainer(ctx, &v1.RemoveContainerRequest{ContainerId: id})
	if err = r.gone(ctx, err); err == nil {
		r.owners.forget(id)
	}
	return err
}

// ContainerStatus describes one container.
func (r *Runtime) ContainerStatus(ctx context.Context, id string) (cri.ContainerStatus, error) {
	response, err := r.runtime.ContainerStatus(ctx, &v1.ContainerStatusRequest{ContainerId: id})
	if err != nil {
		return cri.ContainerStatus{}, r.failed(ctx, err)
	}
	found := wire.DecodeContainerStatus(response.GetStatus())
	sandbox, known := r.owners.get(found.ID)
	if !known {
		if sandbox, err = r.owner(ctx, found.ID); err != nil {
			return cri.ContainerStatus{}, err
		}
	}
	found.SandboxID = sandbox
	return found, nil
}

// owner finds the sandbox of a container, which only lists contain.
func (r *Runtime) owner(ctx context.Context, id string) (string, error) {
	list, err := r.ListContainers(ctx, cri.Filter{ID: id})
	if err != nil {
		return "", err
	}
	if len(list) == 0 {
		return "", fmt.Errorf("container %q was removed meanwhile: %w", id, cri.ErrNotFound)
	}
	return list[0].SandboxID, nil
}

// ListContainers returns the containers that match, newest first.
func (r *Runtime) ListContainers(ctx context.Context, filter cri.Filter) ([]cri.Container, error) {
	selection := wire.EncodeContainerFilter(filter)
	response, err := r.runtime.ListContainers(ctx, &v1.ListContainersRequest{Filter: selection})
	items := response.GetContainers()
	if tooLong(err) {
		items, err = streamed(err, func() (grpc.ServerStreamingClient[v1.StreamContainersResponse], error) {
			return r.runtime.StreamContainers(ctx, &v1.StreamContainersRequest{Filter: selection})
		}, (*v1.StreamContainersResponse).GetContainers)
	}
	if err != nil {
		return nil, r.failed(ctx, err)
	}
	list := make([]cri.Container, 0, len(items))
	for _, item := range items {
		c := wire.DecodeContainer(item)
		r.owners.put(c.ID, c.SandboxID)
		list = append(list, c)
	}
	slices.SortStableFunc(list, func(a, b cri.Container) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.Metadata.Attempt, a.Metadata.Attempt))
	})
	return list, nil
}

// ExecSync runs a command in a container. The timeout is rounded up to seconds.
func (r *Runtime) ExecSync(ctx context.Context, id string, command []string, timeout time.Duration) (cri.ExecResult, error) {
	limited := ctx
	if timeout > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, timeout+execSlack)
		defer cancel()
	}
	response, err := r.runtime.ExecSync(limited, &v1.ExecSyncRequest{ContainerId: id, Cmd: command, Timeout: seconds(timeout)})
	if err = r.failed(limited, err); err != nil {
		if timeout > 0 && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			return cri.ExecResult{}, fmt.Errorf("command timed out: %q timed out after %s: %w", strings.Join(command, " "), timeout, err)
		}
		return cri.ExecResult{}, err
	}
	return cri.ExecResult{Stdout: response.GetStdout(), Stderr: response.GetStderr(), ExitCode: response.GetExitCode()}, nil
}
