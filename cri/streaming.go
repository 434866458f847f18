package cri

import "context"

// Streamer is an optional part of a RuntimeService: it prepares a stream and tells where it is
// served. Whoever connects there, by SPDY or websocket as kubectl does, and before long, gets it;
// the URL is a secret that holds for one connection.
type Streamer interface {
	// Exec prepares to run a command in a running container.
	Exec(ctx context.Context, request ExecRequest) (url string, err error)
	// Attach prepares to connect to a container's own process.
	Attach(ctx context.Context, request AttachRequest) (url string, err error)
	// PortForward prepares connections to ports of a sandbox; without ports any may be asked for.
	PortForward(ctx context.Context, sandboxID string, ports []int32) (url string, err error)
}

// ExecRequest is a command and which of its streams are wanted; at least one of Stdin, Stdout and
// Stderr, and no Stderr with TTY.
type ExecRequest struct {
	ContainerID string
	Command     []string
	Streams
}

// AttachRequest is a container and which of its streams are wanted.
type AttachRequest struct {
	ContainerID string
	Streams
}

// Streams are those that a client wants.
type Streams struct{ Stdin, Stdout, Stderr, TTY bool }

// LogReopener is an optional part of a RuntimeService, used after a log was rotated away.
type LogReopener interface {
	// ReopenContainerLog makes a running container write to a new file at its log path.
	ReopenContainerLog(ctx context.Context, id string) error
}

// Resizer is an optional part of a RuntimeService.
type Resizer interface {
	// UpdateContainerResources changes what a created or running container may use; fields that
	// are unset stay as they are.
	UpdateContainerResources(ctx context.Context, id string, resources Resources) error
}

// CgroupDriver is who makes cgroups.
type CgroupDriver int

// The drivers.
const (
	CgroupDriverSystemd CgroupDriver = iota
	CgroupDriverCgroupfs
)

// Configured is an optional part of a RuntimeService.
type Configured interface {
	// CgroupDriver tells how the runtime reads SandboxConfig.CgroupParent.
	CgroupDriver(ctx context.Context) (CgroupDriver, error)
	// UpdateRuntimeConfig tells the runtime of the node's pod network, if it writes the network's
	// configuration itself.
	UpdateRuntimeConfig(ctx context.Context, podCIDR string) error
}
