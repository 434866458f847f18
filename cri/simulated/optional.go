package simulated

import (
	"context"
	"fmt"

	"github.com/keelson-dev/keelson/cri"
)

// ReopenContainerLog has no log to reopen: it only fails for a container that does not run.
func (r *Runtime) ReopenContainerLog(ctx context.Context, id string) error {
	if err := r.perform(ctx, r.containerOperation(List, id)); err != nil {
		return err
	}
	_, _, err := r.executable(id)
	return err
}

// UpdateContainerResources changes the resources in the container's status.
func (r *Runtime) UpdateContainerResources(ctx context.Context, id string, resources cri.Resources) error {
	if err := r.perform(ctx, r.containerOperation(UpdateResources, id)); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.containers[id]
	if !ok {
		return fmt.Errorf("container %q: %w", id, cri.ErrNotFound)
	}
	if c.status.State != cri.ContainerCreated && c.status.State != cri.ContainerRunning {
		return fmt.Errorf("container %q is %s: %w", id, c.status.State, cri.ErrInvalid)
	}
	merged := merge(*c.status.Resources, resources)
	c.status.Resources = &merged
	return nil
}

// merge overrides a with the values set in b.
func merge(a, b cri.Resources) cri.Resources {
	for _, pair := range [][2]*int64{
		{&a.CPUShares, &b.CPUShares}, {&a.CPUQuota, &b.CPUQuota}, {&a.CPUPeriod, &b.CPUPeriod},
		{&a.MemoryLimit, &b.MemoryLimit}, {&a.MemorySwapLimit, &b.MemorySwapLimit}, {&a.OOMScoreAdj, &b.OOMScoreAdj},
	} {
		if *pair[1] != 0 {
			*pair[0] = *pair[1]
		}
	}
	if b.CPUs != "" {
		a.CPUs = b.CPUs
	}
	if b.MemoryNodes != "" {
		a.MemoryNodes = b.MemoryNodes
	}
	if b.Hugepages != nil {
		a.Hugepages = b.Hugepages
	}
	if b.Unified != nil {
		a.Unified = b.Unified
	}
	return copyResources(a)
}

// Exec fails: there is no process whose streams could be connected. Use ExecSync and Program.Exec.
func (r *Runtime) Exec(ctx context.Context, request cri.ExecRequest) (string, error) {
	return "", r.noStream(ctx, "exec", request.ContainerID)
}

// Attach fails as Exec does.
func (r *Runtime) Attach(ctx context.Context, request cri.AttachRequest) (string, error) {
	return "", r.noStream(ctx, "attach", request.ContainerID)
}

// PortForward fails as Exec does.
func (r *Runtime) PortForward(ctx context.Context, sandboxID string, _ []int32) (string, error) {
	status, err := r.SandboxStatus(ctx, sandboxID)
	if err != nil {
		return "", err
	}
	if status.State != cri.SandboxReady {
		return "", fmt.Errorf("sandbox %q is not ready: %w", sandboxID, cri.ErrInvalid)
	}
	return "", fmt.Errorf("port-forward: nothing listens in a simulated pod: %w", cri.ErrUnsupported)
}

func (r *Runtime) noStream(ctx context.Context, what, id string) error {
	if err := r.perform(ctx, r.containerOperation(List, id)); err != nil {
		return err
	}
	if _, _, err := r.executable(id); err != nil {
		return err
	}
	return fmt.Errorf("%s: a simulated container has no process: %w", what, cri.ErrUnsupported)
}
