package stats

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/keelson-dev/keelson/cri"
)

// summarise converts a snapshot to upstream's form, without filesystems.
func summarise(s *snapshot) *v1alpha1.Summary {
	at := metav1.NewTime(s.at)
	out := &v1alpha1.Summary{Node: v1alpha1.NodeStats{
		NodeName: s.node, StartTime: metav1.NewTime(s.started),
		CPU:    &v1alpha1.CPUStats{Time: at, UsageCoreNanoSeconds: &s.usage.CPU, UsageNanoCores: s.rate},
		Memory: memory(s.usage.Memory, true),
		Swap: &v1alpha1.SwapStats{
			Time: at, SwapAvailableBytes: &s.usage.SwapAvailable, SwapUsageBytes: &s.usage.SwapUsed,
		},
		Network: network(s.usage.Network, s.at),
		Rlimit:  &v1alpha1.RlimitStats{Time: at, NumOfRunningProcesses: signed(s.usage.Processes)},
	}, Pods: []v1alpha1.PodStats{}}
	if s.maxProcesses > 0 {
		out.Node.Rlimit.MaxPID = signed(s.maxProcesses)
	}
	for i := range s.pods {
		out.Pods = append(out.Pods, podStats(&s.pods[i]))
	}
	return out
}

func podStats(pod *podSample) v1alpha1.PodStats {
	m := pod.sandbox.Metadata
	out := v1alpha1.PodStats{
		PodRef:     v1alpha1.PodReference{Name: m.Name, Namespace: m.Namespace, UID: m.UID},
		StartTime:  metav1.NewTime(pod.sandbox.CreatedAt),
		Containers: []v1alpha1.ContainerStats{},
		CPU:        cpu(pod.stats.CPU, pod.rate),
		Memory:     memory(pod.stats.Memory, pod.stats.Memory.Available > 0),
		IO:         io(pod.stats.IO),
		Network:    network(pod.stats.Network, pod.stats.NetworkAt),
	}
	if pod.stats.Processes > 0 {
		out.ProcessStats = &v1alpha1.ProcessStats{ProcessCount: &pod.stats.Processes}
	}
	for i := range pod.containers {
		c := &pod.containers[i]
		out.Containers = append(out.Containers, v1alpha1.ContainerStats{
			Name: c.container.Metadata.Name, StartTime: metav1.NewTime(c.container.CreatedAt),
			CPU: cpu(c.stats.CPU, c.rate), Memory: memory(c.stats.Memory, c.stats.Memory.Available > 0),
			IO: io(c.stats.IO), Swap: swap(c.stats.Swap),
		})
	}
	if out.CPU == nil {
		out.CPU = sumCPU(out.Containers)
	}
	if out.Memory == nil {
		out.Memory = sumMemory(out.Containers)
	}
	out.Swap = sumSwap(out.Containers)
	return out
}

func cpu(use cri.CPUUsage, rate *uint64) *v1alpha1.CPUStats {
	if use.At.IsZero() {
		return nil
	}
	return &v1alpha1.CPUStats{
		Time: metav1.NewTime(use.At), UsageCoreNanoSeconds: &use.CoreNanoSeconds, UsageNanoCores: rate, PSI: pressure(use.Pressure),
	}
}

func memory(use cri.MemoryUsage, limited bool) *v1alpha1.MemoryStats {
	if use.At.IsZero() {
		return nil
	}
	out := &v1alpha1.MemoryStats{
		Time: metav1.NewTime(use.At), UsageBytes: &use.Usage, WorkingSetBytes: &use.WorkingSet, RSSBytes: &use.RSS,
		PageFaults: &use.PageFaults, MajorPageFaults: &use.MajorPageFaults, PSI: pressure(use.Pressure),
	}
	if limited {
		out.AvailableBytes = &use.Available
	}
	return out
}

func swap(use cri.SwapUsage) *v1alpha1.SwapStats {
	if use.At.IsZero() {
		return nil
	}
	return &v1alpha1.SwapStats{Time: metav1.NewTime(use.At), SwapAvailableBytes: &use.Available, SwapUsageBytes: &use.Used}
}

func io(use cri.IOUsage) *v1alpha1.IOStats {
	if use.At.IsZero() || use.Pressure == nil {
		return nil
	}
	return &v1alpha1.IOStats{Time: metav1.NewTime(use.At), PSI: pressure(use.Pressure)}
}

func pressure(p *cri.Pressure) *v1alpha1.PSIStats {
	if p == nil {
		return nil
	}
	return &v1alpha1.PSIStats{
		Full: v1alpha1.PSIData{Total: p.Full.Total, Avg10: p.Full.Avg10, Avg60: p.Full.Avg60, Avg300: p.Full.Avg300},
		Some: v1alpha1.PSIData{Total: p.Some.Total, Avg10: p.Some.Avg10, Avg60: p.Some.Avg60, Avg300: p.Some.Avg300},
	}
}

// network returns the default interface, which is the first, besides the list of all.
func network(list []cri.InterfaceUsage, at time.Time) *v1alpha1.NetworkStats {
	if len(list) == 0 {
		return nil
	}
	out := &v1alpha1.NetworkStats{Time: metav1.NewTime(at)}
	for i := range list {
		out.Interfaces = append(out.Interfaces, v1alpha1.InterfaceStats{
			Name: list[i].Name, RxBytes: &list[i].RxBytes, RxErrors: &list[i].RxErrors, TxBytes: &list[i].TxBytes, TxErrors: &list[i].TxErrors,
		})
	}
	out.InterfaceStats = out.Interfaces[0]
	return out
}

func sumCPU(containers []v1alpha1.ContainerStats) *v1alpha1.CPUStats {
	var out *v1alpha1.CPUStats
	for i := range containers {
		one := containers[i].CPU
		if one == nil {
			continue
		}
		if out == nil {
			out = &v1alpha1.CPUStats{Time: one.Time}
		}
		out.UsageCoreNanoSeconds = plus(out.UsageCoreNanoSeconds, one.UsageCoreNanoSeconds)
		out.UsageNanoCores = plus(out.UsageNanoCores, one.UsageNanoCores)
	}
	return out
}

func sumMemory(containers []v1alpha1.ContainerStats) *v1alpha1.MemoryStats {
	var out *v1alpha1.MemoryStats
	for i := range containers {
		one := containers[i].Memory
		if one == nil {
			continue
		}
		if out == nil {
			out = &v1alpha1.MemoryStats{Time: one.Time}
		}
		out.UsageBytes = plus(out.UsageBytes, one.UsageBytes)
		out.WorkingSetBytes = plus(out.WorkingSetBytes, one.WorkingSetBytes)
		out.RSSBytes = plus(out.RSSBytes, one.RSSBytes)
		out.PageFaults = plus(out.PageFaults, one.PageFaults)
		out.MajorPageFaults = plus(out.MajorPageFaults, one.MajorPageFaults)
	}
	return out
}

func sumSwap(containers []v1alpha1.ContainerStats) *v1alpha1.SwapStats {
	var out *v1alpha1.SwapStats
	for i := range containers {
		one := containers[i].Swap
		if one == nil {
			continue
		}
		if out == nil {
			out = &v1alpha1.SwapStats{Time: one.Time}
		}
		out.SwapAvailableBytes = plus(out.SwapAvailableBytes, one.SwapAvailableBytes)
		out.SwapUsageBytes = plus(out.SwapUsageBytes, one.SwapUsageBytes)
	}
	return out
}

// plus adds known values; nil is unknown.
func plus(a, b *uint64) *uint64 {
	if a == nil || b == nil {
		if a == nil {
			return b
		}
		return a
	}
	sum := *a + *b
	return &sum
}

func signed(n uint64) *int64 {
	out := int64(min(n, 1<<63-1))
	return &out
}
