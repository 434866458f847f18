package cri

import (
	"context"
	"time"
)

// StatsReader is an optional part of a RuntimeService: what sandboxes and containers use.
type StatsReader interface {
	// ListContainerStats returns what the containers that match every field set in the filter
	// use.
	ListContainerStats(ctx context.Context, filter Filter) ([]ContainerStats, error)
	// ListSandboxStats returns what the sandboxes that match use, with their containers. A
	// runtime that cannot tell fails with ErrUnsupported.
	ListSandboxStats(ctx context.Context, filter Filter) ([]SandboxStats, error)
}

// FilesystemReader is an optional part of an ImageService: where images are kept, and how full
// that is.
type FilesystemReader interface {
	// ImageFilesystem returns the filesystem of images, and that of containers' writable layers,
	// which may be the same.
	ImageFilesystem(ctx context.Context) (images, containers FilesystemUsage, err error)
}

// ContainerStats is what one container uses. What a runtime does not know has a zero At.
type ContainerStats struct {
	ID          string
	Metadata    ContainerMetadata
	Labels      map[string]string
	Annotations map[string]string
	CPU         CPUUsage
	Memory      MemoryUsage
	// WritableLayer is what the container has written outside its volumes.
	WritableLayer FilesystemUsage
	Swap          SwapUsage
	IO            IOUsage
}

// SandboxStats is what one sandbox uses in all.
type SandboxStats struct {
	ID          string
	Metadata    SandboxMetadata
	Labels      map[string]string
	Annotations map[string]string
	CPU         CPUUsage
	Memory      MemoryUsage
	// Network are its interfaces, the default one first.
	Network    []InterfaceUsage
	NetworkAt  time.Time
	IO         IOUsage
	Processes  uint64
	Containers []ContainerStats
}

// CPUUsage is CPU time since the start, in nanoseconds of one core, and the rate at that time in
// billionths of a core.
type CPUUsage struct {
	At                time.Time
	CoreNanoSeconds   uint64
	NanoCores         uint64
	NanoCoresMeasured bool // whether NanoCores is known
	// Pressure is nil where the kernel does not tell.
	Pressure *Pressure
}

// MemoryUsage is in bytes.
type MemoryUsage struct {
	At                                time.Time
	WorkingSet, Available, Usage, RSS uint64
	PageFaults, MajorPageFaults       uint64
	// Pressure is nil where the kernel does not tell.
	Pressure *Pressure
}

// SwapUsage is in bytes.
type SwapUsage struct {
	At              time.Time
	Available, Used uint64
}

// IOUsage is how long tasks have waited for input and output.
type IOUsage struct {
	At time.Time
	// Pressure is nil where the kernel does not tell.
	Pressure *Pressure
}

// Pressure is how long all tasks, and some task, have waited for a resource (PSI).
type Pressure struct{ Full, Some Stall }

// Stall is the time that was lost, in nanoseconds, and its share of the last 10, 60 and 300
// seconds, in percent.
type Stall struct {
	Total                uint64
	Avg10, Avg60, Avg300 float64
}

// FilesystemUsage is in bytes and inodes.
type FilesystemUsage struct {
	At                    time.Time
	Mountpoint            string
	UsedBytes, InodesUsed uint64
}

// InterfaceUsage is what went over an interface since it was made.
type InterfaceUsage struct {
	Name                                 string
	RxBytes, RxErrors, TxBytes, TxErrors uint64
}
