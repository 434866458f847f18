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
	_, err := r.runningContainer(id)
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
