package simulated

import (
	"cmp"
	"context"
	"maps"
	"time"

	"github.com/keelson-dev/keelson/cri"
)

// The reported usage of a running container, unless its Program sets others.
const (
	usualNanoCores = 1_000_000 // a thousandth of a core
	usualMemory    = 1 << 20
)

// ListContainerStats returns the reported usage of the matching running containers.
func (r *Runtime) ListContainerStats(ctx context.Context, filter cri.Filter) ([]cri.ContainerStats, error) {
	if err := r.perform(ctx, Operation{Verb: List}); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []cri.ContainerStats
	for _, c := range r.selected(filter) {
		if c.status.State == cri.ContainerRunning {
			list = append(list, c.stats(time.Now()))
		}
	}
	return list, nil
}

// ListSandboxStats returns the reported usage of the matching sandboxes: that of their containers.
func (r *Runtime) ListSandboxStats(ctx context.Context, filter cri.Filter) ([]cri.SandboxStats, error) {
	if err := r.perform(ctx, Operation{Verb: List}); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	var list []cri.SandboxStats
	for _, s := range r.sandboxes {
		if s.status.State != cri.SandboxReady || filter.ID != "" && filter.ID != s.status.ID || !matches(s.status.Labels, filter.Labels) {
			continue
		}
		stats := cri.SandboxStats{
			ID: s.status.ID, Metadata: s.status.Metadata,
			Labels: maps.Clone(s.status.Labels), Annotations: maps.Clone(s.status.Annotations),
			CPU:    cri.CPUUsage{At: now, NanoCoresMeasured: true},
			Memory: cri.MemoryUsage{At: now},
		}
		if s.status.Namespaces.Network != cri.NamespaceNode {
			stats.Network, stats.NetworkAt = []cri.InterfaceUsage{{Name: "eth0"}}, now
		}
		for _, c := range r.containersOf(s) {
			if c.status.State != cri.ContainerRunning {
				continue
			}
			one := c.stats(now)
			stats.Containers = append(stats.Containers, one)
			stats.Processes++
			stats.CPU.CoreNanoSeconds += one.CPU.CoreNanoSeconds
			stats.CPU.NanoCores += one.CPU.NanoCores
			stats.Memory.WorkingSet += one.Memory.WorkingSet
			stats.Memory.Usage += one.Memory.Usage
			stats.Memory.RSS += one.Memory.RSS
		}
		list = append(list, stats)
	}
	newestFirst(list, func(s cri.SandboxStats) uint64 { return r.sandboxes[s.ID].sequence })
	return list, nil
}

// stats derives the usage from the program and its running time.
func (c *container) stats(now time.Time) cri.ContainerStats {
	rate, memory := c.load()
	stats := cri.ContainerStats{
		ID: c.status.ID, Metadata: c.status.Metadata,
		Labels: maps.Clone(c.status.Labels), Annotations: maps.Clone(c.status.Annotations),
		CPU: cri.CPUUsage{
			At: now, CoreNanoSeconds: c.used(now), NanoCores: rate, NanoCoresMeasured: true,
		},
		Memory:        cri.MemoryUsage{At: now, WorkingSet: memory, Usage: memory, RSS: memory},
		WritableLayer: cri.FilesystemUsage{At: now, Mountpoint: "/"},
	}
	if r := c.status.Resources; r != nil && r.MemoryLimit > 0 && uint64(r.MemoryLimit) > memory { // -1 is none
		stats.Memory.Available = uint64(r.MemoryLimit) - memory
	}
	return stats
}

// ImageFilesystem counts the images.
func (r *Runtime) ImageFilesystem(ctx context.Context) (images, containers cri.FilesystemUsage, err error) {
	if err := r.perform(ctx, Operation{Verb: List}); err != nil {
		return images, containers, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	images = cri.FilesystemUsage{At: time.Now(), Mountpoint: "/", InodesUsed: uint64(len(r.images.byName))}
	for _, image := range r.images.byName {
		images.UsedBytes += image.Size
	}
	return images, cri.FilesystemUsage{At: images.At, Mountpoint: "/"}, nil
}

// Usage is what all containers use together.
type Usage struct {
	CoreNanoSeconds uint64 // CPU time, of those that have ended, too
	Memory          uint64 // bytes
	Processes       uint64 // one for each running container
}

// Usage returns what all containers use together, and have used.
func (r *Runtime) Usage() Usage {
	r.mu.Lock()
	defer r.mu.Unlock()
	use := Usage{CoreNanoSeconds: r.spent}
	now := time.Now()
	for _, c := range r.containers {
		if c.status.State == cri.ContainerRunning {
			use.CoreNanoSeconds += c.used(now)
			_, memory := c.load()
			use.Memory += memory
			use.Processes++
		}
	}
	return use
}

// load returns what a container uses at present.
func (c *container) load() (nanoCores, memory uint64) {
	if c.program.Load != nil {
		return c.program.Load()
	}
	return cmp.Or(c.program.NanoCores, usualNanoCores), cmp.Or(c.program.Memory, usualMemory)
}

// used returns the CPU time that a container has used up to now, in nanoseconds.
func (c *container) used(now time.Time) uint64 {
	if c.program.Load != nil {
		since := c.metered
		if since.IsZero() {
			since = c.status.StartedAt
		}
		rate, _ := c.load()
		c.spent += uint64(max(now.Sub(since), 0).Seconds() * float64(rate))
		c.metered = now
		return c.spent
	}
	return uint64(max(now.Sub(c.status.StartedAt), 0).Seconds() * float64(cmp.Or(c.program.NanoCores, usualNanoCores)))
}
