package cri

import (
	"context"
	"time"
)

// StatsReader is an optional part of a RuntimeService: the resource usage of sandboxes and containers.
type StatsReader interface {
	// ListContainerStats returns the usage of the containers that match every field set in the filter.
	ListContainerStats(ctx context.Context, filter Filter) ([]ContainerStats, error)
	// ListSandboxStats returns the usage of the matching sandboxes, with their containers. Without support in the
	// runtime it fails with ErrUnsupported.
	ListSandboxStats(ctx context.Context, filter Filter) ([]SandboxStats, error)
}

// FilesystemReader is an optional part of an ImageService: where images are stored, and the usage of that place.
type FilesystemReader interface {
	// ImageFilesystem returns the filesystem of images, and that of containers' writable layers,
	// which may be the same.
	ImageFilesystem(ctx context.Context) (images, containers FilesystemUsage, err error)
}

// ContainerStats is the usage of one container. Values unknown to the runtime have a zero At.
type ContainerStats struct {
	ID          string // of the container
	Metadata    ContainerMetadata
	Labels      map[string]string
	Annotations map[string]string
	CPU         CPUUsage    // of all its processes
	Memory      MemoryUsage // of all its processes
	// WritableLayer is the data that the container has written outside its volumes.
	WritableLayer FilesystemUsage
	Swap          SwapUsage
	IO            IOUsage
}

// SandboxStats is the total usage of one sandbox.
type SandboxStats struct {
	ID          string // of the sandbox
	Metadata    SandboxMetadata
	Labels      map[string]string
	Annotations map[string]string
	CPU         CPUUsage    // of all containers
	Memory      MemoryUsage // of all containers
	// Network are its interfaces, the default one first.
	Network    []InterfaceUsage
	NetworkAt  time.Time
	IO         IOUsage
	Processes  uint64
	Containers []ContainerStats
}

// CPUUsage is the use of CPU.
type CPUUsage struct {
	At                time.Time // of the measurement
	CoreNanoSeconds   uint64    // CPU time since the start
	NanoCores         uint64    // present rate, in billionths of a core
	NanoCoresMeasured bool      // whether NanoCores is known
	// Pressure is nil if the kernel does not report it.
	Pressure *Pressure
}

// MemoryUsage is the use of memory, in bytes.
type MemoryUsage struct {
	// As in the kubelet's summary API; At is the time of the measurement.
	At                                time.Time
	WorkingSet, Available, Usage, RSS uint64
	PageFaults, MajorPageFaults       uint64
	// Pressure is nil if the kernel does not report it.
	Pressure *Pressure
}

// SwapUsage is the use of swap, in bytes.
type SwapUsage struct {
	At              time.Time // of the measurement
	Available, Used uint64    // bytes
}

// IOUsage is how long tasks have waited for input and output.
type IOUsage struct {
	At time.Time // of the measurement
	// Pressure is nil if the kernel does not report it.
	Pressure *Pressure
}

// Pressure is the pressure stall information of a resource (PSI).
type Pressure struct {
	Full Stall // all tasks waited
	Some Stall // at least one task waited
}

// Stall is time spent waiting.
type Stall struct {
	Total                uint64  // nanoseconds
	Avg10, Avg60, Avg300 float64 // percent of the last 10, 60 and 300 seconds
}

// FilesystemUsage is the use of a filesystem.
type FilesystemUsage struct {
	At                    time.Time // of the measurement
	Mountpoint            string    // identifies the filesystem
	UsedBytes, InodesUsed uint64    // of the images or layers in it
}

// InterfaceUsage is the traffic of a network interface since its creation.
type InterfaceUsage struct {
	Name                                 string
	RxBytes, RxErrors, TxBytes, TxErrors uint64 // received and transmitted
}
