package stats_test

import (
	"context"
	"time"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet/machine"
)

// runtime is a runtime whose answers a test sets.
type runtime struct {
	sandboxes  []cri.Sandbox
	containers []cri.Container
	pods       []cri.SandboxStats
	stats      []cri.ContainerStats
	err        error // of everything
	podsErr    error // of ListSandboxStats
}

// live is a runtime whose state changes with every call.
type live struct{ now func() *runtime }

func (l live) SandboxStatus(ctx context.Context, id string) (cri.SandboxStatus, error) {
	return l.now().SandboxStatus(ctx, id)
}

func (l live) ListSandboxes(ctx context.Context, f cri.Filter) ([]cri.Sandbox, error) {
	return l.now().ListSandboxes(ctx, f)
}

func (l live) ContainerStatus(ctx context.Context, id string) (cri.ContainerStatus, error) {
	return l.now().ContainerStatus(ctx, id)
}

func (l live) ListContainers(ctx context.Context, f cri.Filter) ([]cri.Container, error) {
	return l.now().ListContainers(ctx, f)
}

func (l live) ListContainerStats(ctx context.Context, f cri.Filter) ([]cri.ContainerStats, error) {
	return l.now().ListContainerStats(ctx, f)
}

func (l live) ListSandboxStats(ctx context.Context, f cri.Filter) ([]cri.SandboxStats, error) {
	return l.now().ListSandboxStats(ctx, f)
}

func (r *runtime) SandboxStatus(context.Context, string) (cri.SandboxStatus, error) {
	return cri.SandboxStatus{}, cri.ErrUnsupported
}

func (r *runtime) ListSandboxes(context.Context, cri.Filter) ([]cri.Sandbox, error) {
	return r.sandboxes, r.err
}

func (r *runtime) ContainerStatus(context.Context, string) (cri.ContainerStatus, error) {
	return cri.ContainerStatus{}, cri.ErrUnsupported
}

func (r *runtime) ListContainers(context.Context, cri.Filter) ([]cri.Container, error) {
	return r.containers, r.err
}

func (r *runtime) ListContainerStats(context.Context, cri.Filter) ([]cri.ContainerStats, error) {
	return r.stats, r.err
}

func (r *runtime) ListSandboxStats(context.Context, cri.Filter) ([]cri.SandboxStats, error) {
	return r.pods, r.podsErr
}

// idle is a machine that uses a tenth of a CPU.
type idle struct{ since time.Time }

func (i idle) Usage(now time.Time) machine.Usage {
	return machine.Usage{
		At: now, CPU: uint64(now.Sub(i.since) / 10), Processes: 12,
		Memory:   cri.MemoryUsage{At: now, WorkingSet: 4 << 20, Available: 12 << 20, Usage: 5 << 20},
		Network:  []cri.InterfaceUsage{{Name: "eth0", RxBytes: 1}},
		SwapUsed: 3, SwapAvailable: 4,
	}
}

// busy is a runtime with two pods: web with two containers that use half a CPU each, one of which was restarted, and
// one that has ended.
func busy(start time.Time) *runtime {
	sandbox := func(id, name string, state cri.SandboxState) cri.Sandbox {
		return cri.Sandbox{ID: id, State: state, CreatedAt: start, Metadata: cri.SandboxMetadata{Name: name, Namespace: "default", UID: "uid-" + name}}
	}
	container := func(id, sandbox, name string, state cri.ContainerState) cri.Container {
		return cri.Container{ID: id, SandboxID: sandbox, State: state, CreatedAt: start, Metadata: cri.ContainerMetadata{Name: name},
			Image: cri.ImageSpec{Image: "example.com/" + name}}
	}
	now := time.Now()
	use := func(id string) cri.ContainerStats {
		return cri.ContainerStats{
			ID: id, CPU: cri.CPUUsage{At: now, CoreNanoSeconds: uint64(now.Sub(start) / 2)},
			Memory:        cri.MemoryUsage{At: now, WorkingSet: 1 << 20, Usage: 2 << 20, RSS: 1000},
			WritableLayer: cri.FilesystemUsage{At: now, UsedBytes: 4096, InodesUsed: 2},
		}
	}
	pod := cri.SandboxStats{
		ID: "s1", CPU: cri.CPUUsage{At: now, CoreNanoSeconds: uint64(now.Sub(start)) + 1000},
		Memory:  cri.MemoryUsage{At: now, WorkingSet: 3 << 20, Available: 7 << 20},
		Network: []cri.InterfaceUsage{{Name: "eth0", RxBytes: 10, TxBytes: 20}}, NetworkAt: now, Processes: 5,
		Containers: []cri.ContainerStats{use("c1"), use("c2")},
	}
	return &runtime{
		sandboxes: []cri.Sandbox{sandbox("s1", "web", cri.SandboxReady), sandbox("s0", "old", cri.SandboxNotReady)},
		containers: []cri.Container{
			container("c2", "s1", "side", cri.ContainerRunning), container("c1", "s1", "app", cri.ContainerRunning),
			container("c0", "s1", "app", cri.ContainerExited), container("x", "s0", "app", cri.ContainerRunning),
		},
		pods:  []cri.SandboxStats{pod},
		stats: []cri.ContainerStats{use("c1"), use("c2")},
	}
}
