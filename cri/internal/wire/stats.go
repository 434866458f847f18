package wire

import (
	v1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/keelson-dev/keelson/cri"
)

// EncodeContainerStatsFilter makes the filter's message.
func EncodeContainerStatsFilter(f cri.Filter) *v1.ContainerStatsFilter {
	return &v1.ContainerStatsFilter{Id: f.ID, PodSandboxId: f.SandboxID, LabelSelector: f.Labels}
}

// DecodeContainerStatsFilter reads the filter's message.
func DecodeContainerStatsFilter(f *v1.ContainerStatsFilter) cri.Filter {
	return cri.Filter{ID: f.GetId(), SandboxID: f.GetPodSandboxId(), Labels: f.GetLabelSelector()}
}

// EncodeSandboxStatsFilter makes the filter's message.
func EncodeSandboxStatsFilter(f cri.Filter) *v1.PodSandboxStatsFilter {
	return &v1.PodSandboxStatsFilter{Id: f.ID, LabelSelector: f.Labels}
}

// DecodeSandboxStatsFilter reads the filter's message.
func DecodeSandboxStatsFilter(f *v1.PodSandboxStatsFilter) cri.Filter {
	return cri.Filter{ID: f.GetId(), Labels: f.GetLabelSelector()}
}

// EncodeContainerStats makes the message.
func EncodeContainerStats(s cri.ContainerStats) *v1.ContainerStats {
	stats := &v1.ContainerStats{
		Attributes: &v1.ContainerAttributes{Id: s.ID, Metadata: encodeMetadata(s.Metadata), Labels: s.Labels, Annotations: s.Annotations},
		Cpu:        encodeCPU(s.CPU), Memory: encodeMemory(s.Memory), WritableLayer: EncodeFilesystem(s.WritableLayer), Io: encodeIO(s.IO),
	}
	if !s.Swap.At.IsZero() {
		stats.Swap = &v1.SwapUsage{
			Timestamp: encodeTime(s.Swap.At), SwapAvailableBytes: number(s.Swap.Available), SwapUsageBytes: number(s.Swap.Used),
		}
	}
	return stats
}

// DecodeContainerStats reads the message.
func DecodeContainerStats(s *v1.ContainerStats) cri.ContainerStats {
	a := s.GetAttributes()
	return cri.ContainerStats{
		ID: a.GetId(), Metadata: decodeMetadata(a.GetMetadata()), Labels: a.GetLabels(), Annotations: a.GetAnnotations(),
		CPU: decodeCPU(s.GetCpu()), Memory: decodeMemory(s.GetMemory()), WritableLayer: DecodeFilesystem(s.GetWritableLayer()),
		Swap: cri.SwapUsage{
			At: decodeTime(s.GetSwap().GetTimestamp()), Available: s.GetSwap().GetSwapAvailableBytes().GetValue(), Used: s.GetSwap().GetSwapUsageBytes().GetValue(),
		},
		IO: decodeIO(s.GetIo()),
	}
}

// EncodeSandboxStats makes the message.
func EncodeSandboxStats(s cri.SandboxStats) *v1.PodSandboxStats {
	linux := &v1.LinuxPodSandboxStats{
		Cpu: encodeCPU(s.CPU), Memory: encodeMemory(s.Memory), Containers: each(s.Containers, EncodeContainerStats),
		Process: &v1.ProcessUsage{Timestamp: encodeTime(s.CPU.At), ProcessCount: number(s.Processes)}, Io: encodeIO(s.IO),
	}
	if !s.NetworkAt.IsZero() || len(s.Network) > 0 {
		linux.Network = &v1.NetworkUsage{Timestamp: encodeTime(s.NetworkAt)}
	}
	if len(s.Network) > 0 {
		linux.Network.DefaultInterface = encodeInterface(s.Network[0])
		linux.Network.Interfaces = each(s.Network[1:], encodeInterface)
	}
	return &v1.PodSandboxStats{
		Attributes: &v1.PodSandboxAttributes{Id: s.ID, Metadata: encodePodMetadata(s.Metadata), Labels: s.Labels, Annotations: s.Annotations},
		Linux:      linux,
	}
}

// DecodeSandboxStats reads the message.
func DecodeSandboxStats(s *v1.PodSandboxStats) cri.SandboxStats {
	a, linux := s.GetAttributes(), s.GetLinux()
	stats := cri.SandboxStats{
		ID: a.GetId(), Metadata: decodePodMetadata(a.GetMetadata()), Labels: a.GetLabels(), Annotations: a.GetAnnotations(),
		CPU: decodeCPU(linux.GetCpu()), Memory: decodeMemory(linux.GetMemory()),
		NetworkAt: decodeTime(linux.GetNetwork().GetTimestamp()), IO: decodeIO(linux.GetIo()), Processes: linux.GetProcess().GetProcessCount().GetValue(),
		Containers: each(linux.GetContainers(), DecodeContainerStats),
	}
	if first := linux.GetNetwork().GetDefaultInterface(); first != nil {
		stats.Network = append(stats.Network, decodeInterface(first))
	}
	stats.Network = append(stats.Network, each(linux.GetNetwork().GetInterfaces(), decodeInterface)...)
	return stats
}

func encodeCPU(c cri.CPUUsage) *v1.CpuUsage {
	if c.At.IsZero() {
		return nil
	}
	usage := &v1.CpuUsage{Timestamp: encodeTime(c.At), UsageCoreNanoSeconds: number(c.CoreNanoSeconds), Psi: encodePressure(c.Pressure)}
	if c.NanoCoresMeasured {
		usage.UsageNanoCores = number(c.NanoCores)
	}
	return usage
}

func decodeCPU(c *v1.CpuUsage) cri.CPUUsage {
	return cri.CPUUsage{
		At: decodeTime(c.GetTimestamp()), CoreNanoSeconds: c.GetUsageCoreNanoSeconds().GetValue(),
		NanoCores: c.GetUsageNanoCores().GetValue(), NanoCoresMeasured: c.GetUsageNanoCores() != nil,
		Pressure: decodePressure(c.GetPsi()),
	}
}

func encodeMemory(m cri.MemoryUsage) *v1.MemoryUsage {
	if m.At.IsZero() {
		return nil
	}
	return &v1.MemoryUsage{
		Timestamp: encodeTime(m.At), WorkingSetBytes: number(m.WorkingSet), AvailableBytes: number(m.Available), UsageBytes: number(m.Usage),
		RssBytes: number(m.RSS), PageFaults: number(m.PageFaults), MajorPageFaults: number(m.MajorPageFaults),
		Psi: encodePressure(m.Pressure),
	}
}

func decodeMemory(m *v1.MemoryUsage) cri.MemoryUsage {
	return cri.MemoryUsage{
		At: decodeTime(m.GetTimestamp()), WorkingSet: m.GetWorkingSetBytes().GetValue(), Available: m.GetAvailableBytes().GetValue(),
		Usage: m.GetUsageBytes().GetValue(), RSS: m.GetRssBytes().GetValue(),
		PageFaults: m.GetPageFaults().GetValue(), MajorPageFaults: m.GetMajorPageFaults().GetValue(),
		Pressure: decodePressure(m.GetPsi()),
	}
}

func encodeIO(u cri.IOUsage) *v1.IoUsage {
	if u.At.IsZero() {
		return nil
	}
	return &v1.IoUsage{Timestamp: encodeTime(u.At), Psi: encodePressure(u.Pressure)}
}

func decodeIO(u *v1.IoUsage) cri.IOUsage {
	return cri.IOUsage{At: decodeTime(u.GetTimestamp()), Pressure: decodePressure(u.GetPsi())}
}

func encodePressure(p *cri.Pressure) *v1.PsiStats {
	if p == nil {
		return nil
	}
	return &v1.PsiStats{Full: encodeStall(p.Full), Some: encodeStall(p.Some)}
}

func decodePressure(p *v1.PsiStats) *cri.Pressure {
	if p == nil {
		return nil
	}
	return &cri.Pressure{Full: decodeStall(p.GetFull()), Some: decodeStall(p.GetSome())}
}

func encodeStall(s cri.Stall) *v1.PsiData {
	return &v1.PsiData{Total: s.Total, Avg10: s.Avg10, Avg60: s.Avg60, Avg300: s.Avg300}
}

func decodeStall(d *v1.PsiData) cri.Stall {
	return cri.Stall{Total: d.GetTotal(), Avg10: d.GetAvg10(), Avg60: d.GetAvg60(), Avg300: d.GetAvg300()}
}

// EncodeFilesystem makes the message; what is not known is nil.
func EncodeFilesystem(f cri.FilesystemUsage) *v1.FilesystemUsage {
	if f.At.IsZero() {
		return nil
	}
	return &v1.FilesystemUsage{
		Timestamp: encodeTime(f.At), FsId: &v1.FilesystemIdentifier{Mountpoint: f.Mountpoint},
		UsedBytes: number(f.UsedBytes), InodesUsed: number(f.InodesUsed),
	}
}

// DecodeFilesystem reads the message.
func DecodeFilesystem(f *v1.FilesystemUsage) cri.FilesystemUsage {
	return cri.FilesystemUsage{
		At: decodeTime(f.GetTimestamp()), Mountpoint: f.GetFsId().GetMountpoint(),
		UsedBytes: f.GetUsedBytes().GetValue(), InodesUsed: f.GetInodesUsed().GetValue(),
	}
}

func encodeInterface(i cri.InterfaceUsage) *v1.NetworkInterfaceUsage {
	return &v1.NetworkInterfaceUsage{
		Name: i.Name, RxBytes: number(i.RxBytes), RxErrors: number(i.RxErrors), TxBytes: number(i.TxBytes), TxErrors: number(i.TxErrors),
	}
}

func decodeInterface(i *v1.NetworkInterfaceUsage) cri.InterfaceUsage {
	return cri.InterfaceUsage{
		Name: i.GetName(), RxBytes: i.GetRxBytes().GetValue(), RxErrors: i.GetRxErrors().GetValue(),
		TxBytes: i.GetTxBytes().GetValue(), TxErrors: i.GetTxErrors().GetValue(),
	}
}

func number(n uint64) *v1.UInt64Value { return &v1.UInt64Value{Value: n} }
