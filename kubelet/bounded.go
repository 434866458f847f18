package kubelet

import (
	"context"
	"time"

	"github.com/keelson-dev/keelson/cri"
)

// bounded sets a timeout on every call to a runtime except image pulls, which take as long as they take.
type bounded struct {
	runtime Runtime
	limit   time.Duration
}

var (
	_ cri.RuntimeService = bounded{}
	_ imageService       = bounded{}
)

func (b bounded) Version(ctx context.Context) (cri.Version, error) {
	ctx, cancel := context.WithTimeout(ctx, b.limit)
	defer cancel()
	return b.runtime.Version(ctx)
}

func (b bounded) Status(ctx context.Context) (cri.RuntimeStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, b.limit)
	defer cancel()
	return b.runtime.Status(ctx)
}

// RunPodSandbox gets twice the timeout: network plugins may be slow.
func (b bounded) RunPodSandbox(ctx context.Context, config cri.SandboxConfig) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*b.limit)
	defer cancel()
	return b.runtime.RunPodSandbox(ctx, config)
}

func (b bounded) StopPodSandbox(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, b.limit)
	defer cancel()
	return b.runtime.StopPodSandbox(ctx, id)
}

func (b bounded) RemovePodSandbox(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, b.limit)
	defer cancel()
	return b.runtime.RemovePodSandbox(ctx, id)
}

func (b bounded) SandboxStatus(ctx context.Context, id string) (cri.SandboxStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, b.limit)
	defer cancel()
	return b.runtime.SandboxStatus(ctx, id)
}

func (b bounded) ListSandboxes(ctx context.Context, filter cri.Filter) ([]cri.Sandbox, error) {
	ctx, cancel := context.WithTimeout(ctx, b.limit)
	defer cancel()
	return b.runtime.ListSandboxes(ctx, filter)
}

func (b bounded) CreateContainer(ctx context.Context, sandboxID string, config cri.ContainerConfig, sandbox cri.SandboxConfig) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, b.limit)
	defer cancel()
	return b.runtime.CreateContainer(ctx, sandboxID, config, sandbox)
}

func (b bounded) StartContainer(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, b.limit)
	defer cancel()
	return b.runtime.StartContainer(ctx, id)
}

// StopContainer gets the timeout on top of the grace period.
func (b bounded) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, b.limit+max(grace, 0))
	defer cancel()
	return b.runtime.StopContainer(ctx, id, grace)
}

func (b bounded) RemoveContainer(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, b.limit)
	defer cancel()
	return b.runtime.RemoveContainer(ctx, id)
}

func (b bounded) ContainerStatus(ctx context.Context, id string) (cri.ContainerStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, b.limit)
	defer cancel()
	return b.runtime.ContainerStatus(ctx, id)
}

func (b bounded) ListContainers(ctx context.Context, filter cri.Filter) ([]cri.Container, error) {
	ctx, cancel := context.WithTimeout(ctx, b.limit)
	defer cancel()
	return b.runtime.ListContainers(ctx, filter)
}

// ExecSync is bounded by its own timeout if it has one.
func (b bounded) ExecSync(ctx context.Context, id string, command []string, timeout time.Duration) (cri.ExecResult, error) {
	if timeout > 0 {
		limited, cancel := context.WithTimeout(ctx, timeout+b.limit)
		defer cancel()
		ctx = limited
	}
	return b.runtime.ExecSync(ctx, id, command, timeout)
}

func (b bounded) PullImage(ctx context.Context, image cri.ImageSpec, auth *cri.Auth) (string, error) {
	return b.runtime.PullImage(ctx, image, auth)
}

func (b bounded) ImageStatus(ctx context.Context, image cri.ImageSpec) (cri.Image, error) {
	ctx, cancel := context.WithTimeout(ctx, b.limit)
	defer cancel()
	return b.runtime.ImageStatus(ctx, image)
}

func (b bounded) ListImages(ctx context.Context) ([]cri.Image, error) {
	ctx, cancel := context.WithTimeout(ctx, b.limit)
	defer cancel()
	return b.runtime.ListImages(ctx)
}
