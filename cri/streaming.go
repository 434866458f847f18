package cri

import "context"

// Streamer is an optional part of a RuntimeService: it prepares a stream and returns the URL that serves it, by SPDY or
// websocket as for kubectl. The URL is a secret, valid for one connection and a short time.
type Streamer interface {
	// Exec prepares to run a command in a running container.
	Exec(ctx context.Context, request ExecRequest) (url string, err error)
	// Attach prepares to connect to a container's own process.
	Attach(ctx context.Context, request AttachRequest) (url string, err error)
	// PortForward prepares connections to ports of a sandbox; if ports is empty, any port may be requested.
	PortForward(ctx context.Context, sandboxID string, ports []int32) (url string, err error)
}

// ExecRequest is a command and the streams to connect: at least one of Stdin, Stdout and Stderr, and no Stderr with TTY.
type ExecRequest struct {
	ContainerID string   // of a running container
	Command     []string // with its arguments
	Streams
}

// AttachRequest is a container and the streams to connect.
type AttachRequest struct {
	ContainerID string // of a running container
	Streams
}

// Streams selects the streams to connect.
type Streams struct {
	Stdin, Stdout, Stderr bool // whether to connect it
	TTY                   bool // they are a terminal's
}

// LogReopener is an optional part of a RuntimeService, used after a log was rotated.
type LogReopener interface {
	// ReopenContainerLog makes a running container write to a new file at its log path.
	ReopenContainerLog(ctx context.Context, id string) error
}

// Resizer is an optional part of a RuntimeService.
type Resizer interface {
	// UpdateContainerResources changes the limits of a created or running container. Unset fields keep their
	// values.
	UpdateContainerResources(ctx context.Context, id string, resources Resources) error
}

// CgroupDriver is how cgroups are managed.
type CgroupDriver int

// The drivers.
const (
	CgroupDriverSystemd CgroupDriver = iota
	CgroupDriverCgroupfs
)

// Configured is an optional part of a RuntimeService.
type Configured interface {
	// CgroupDriver returns how the runtime interprets SandboxConfig.CgroupParent.
	CgroupDriver(ctx context.Context) (CgroupDriver, error)
	// UpdateRuntimeConfig passes the node's pod CIDR to a runtime that writes its own network configuration.
	UpdateRuntimeConfig(ctx context.Context, podCIDR string) error
}
