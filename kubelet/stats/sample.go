package stats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet/machine"
)

// snapshot is what a node and its pods use at one moment.
type snapshot struct {
	at           time.Time
	node         string
	started      time.Time
	maxProcesses uint64
	usage        machine.Usage
	rate         *uint64 // of the node's CPUs
	pods         []podSample
}

// podSample is what a pod uses. Its CPU and memory have a zero At if only those of its containers are known.
type podSample struct {
	sandbox    cri.Sandbox
	stats      cri.SandboxStats
	rate       *uint64
	containers []containerSample
}

type containerSample struct {
	container cri.Container
	stats     cri.ContainerStats
	rate      *uint64
}

// gather samples the runtime and the machine. Pods and containers that do not run are left out.
func (c *Collector) gather(ctx context.Context) (*snapshot, error) {
	sandboxes, err := c.runtime.ListSandboxes(ctx, cri.Filter{})
	if err != nil {
		return nil, fmt.Errorf("listing sandboxes: %w", err)
	}
	containers, err := c.runtime.ListContainers(ctx, cri.Filter{})
	if err != nil {
		return nil, fmt.Errorf("listing containers: %w", err)
	}
	of, err := c.use(ctx)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	out := &snapshot{
		at: now, node: c.node, usage: c.machine.Usage(now), started: c.options.Started, maxProcesses: c.options.MaxProcesses,
	}
	pods := map[string]int{} // by sandbox
	for _, sandbox := range sandboxes {
		if sandbox.State != cri.SandboxReady || sandbox.Metadata.UID == "" {
			continue
		}
		pods[sandbox.ID] = len(out.pods)
		out.pods = append(out.pods, podSample{sandbox: sandbox, stats: of.sandboxes[sandbox.ID]})
	}
	for _, container := range containers {
		i, ok := pods[container.SandboxID]
		if !ok || container.State != cri.ContainerRunning {
			continue
		}
		out.pods[i].containers = append(out.pods[i].containers, containerSample{container: container, stats: of.containers[container.ID]})
	}
	for i := range out.pods {
		slices.SortFunc(out.pods[i].containers, func(a, b containerSample) int {
			return cmp.Compare(a.container.Metadata.Name, b.container.Metadata.Name)
		})
	}
	slices.SortFunc(out.pods, func(a, b podSample) int {
		x, y := a.sandbox.Metadata, b.sandbox.Metadata
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name), cmp.Compare(x.UID, y.UID))
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rates.apply(out)
	c.gathered = now
	return out, nil
}

// use is what sandboxes and containers use, by their IDs.
type use struct {
	sandboxes  map[string]cri.SandboxStats
	containers map[string]cri.ContainerStats
}

func (c *Collector) use(ctx context.Context) (use, error) {
	out := use{sandboxes: map[string]cri.SandboxStats{}, containers: map[string]cri.ContainerStats{}}
	if c.reader == nil {
		return out, nil
	}
	sandboxes, err := c.reader.ListSandboxStats(ctx, cri.Filter{})
	if err == nil {
		for _, s := range sandboxes {
			out.sandboxes[s.ID] = s
			for _, container := range s.Containers {
				out.containers[container.ID] = container
			}
		}
		return out, nil
	}
	if !errors.Is(err, cri.ErrUnsupported) {
		return out, fmt.Errorf("reading the statistics of sandboxes: %w", err)
	}
	containers, err := c.reader.ListContainerStats(ctx, cri.Filter{})
	if err != nil && !errors.Is(err, cri.ErrUnsupported) {
		return out, fmt.Errorf("reading the statistics of containers: %w", err)
	}
	for _, container := range containers {
		out.containers[container.ID] = container
	}
	return out, nil
}

// minWindow is the shortest time over which a rate is computed, once there are readings that far apart.
const minWindow = 5 * time.Second

// reading is the CPU time used up to a moment.
type reading struct {
	at    time.Time
	total uint64
}

// rates holds two readings of everything that uses CPU.
type rates map[string]*[2]reading // the older one first

// apply fills in the rates of a snapshot, and drops readings of what is not in it.
func (r rates) apply(s *snapshot) {
	seen := map[string]bool{}
	of := func(key string, at time.Time, total uint64, measured *uint64) *uint64 {
		seen[key] = true
		rate := r.rate(key, reading{at, total})
		if measured != nil {
			return measured
		}
		return rate
	}
	s.rate = of("node", s.usage.At, s.usage.CPU, nil)
	for i := range s.pods {
		pod := &s.pods[i]
		for j := range pod.containers {
			container := &pod.containers[j]
			cpu := container.stats.CPU
			if !cpu.At.IsZero() {
				container.rate = of("container/"+container.container.ID, cpu.At, cpu.CoreNanoSeconds, known(cpu))
			}
		}
		if cpu := pod.stats.CPU; !cpu.At.IsZero() {
			pod.rate = of("sandbox/"+pod.sandbox.ID, cpu.At, cpu.CoreNanoSeconds, known(cpu))
		}
	}
	for key := range r {
		if !seen[key] {
			delete(r, key)
		}
	}
}

func known(cpu cri.CPUUsage) *uint64 {
	if !cpu.NanoCoresMeasured {
		return nil
	}
	return &cpu.NanoCores
}

// rate returns the rate up to a reading, in billionths of a CPU; nil for the first.
func (r rates) rate(key string, now reading) *uint64 {
	pair, ok := r[key]
	if !ok {
		r[key] = &[2]reading{{}, now}
		return nil
	}
	if now.total < pair[1].total { // it was restarted
		pair[0], pair[1] = reading{}, now
	}
	if now.at.Sub(pair[1].at) >= minWindow {
		pair[0], pair[1] = pair[1], now
	}
	from := pair[0]
	if from.at.IsZero() {
		from = pair[1]
	}
	window := now.at.Sub(from.at)
	if window <= 0 {
		return nil
	}
	out := uint64(float64(now.total-from.total) / window.Seconds())
	return &out
}
