package cri

import (
	"context"
	"io"
	"time"
)

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

// StreamHandler is an optional part of a RuntimeService in the caller's process: it connects streams itself. Package streams
// makes a Streamer of it.
type StreamHandler interface {
	// HandleExec runs a command in a running container with the streams connected, and returns its exit code. The context
	// ends when the client is gone.
	HandleExec(ctx context.Context, id string, command []string, s StreamIO) (code int32, err error)
	// HandleAttach connects the streams to a container's own process, until the process or the context ends.
	HandleAttach(ctx context.Context, id string, s StreamIO) error
	// HandlePort connects a client to a port of a sandbox until either of them or the context ends. The caller closes conn
	// after that, which may still be being read.
	HandlePort(ctx context.Context, sandboxID string, port int32, conn io.ReadWriteCloser) error
}

// StreamIO is the process's side of connected streams. Stdin may still be being read when the call that it was passed to has
// returned; whoever made it ends it then.
type StreamIO struct {
	Stdin          io.Reader // nil: not connected
	Stdout, Stderr io.Writer // nil: not connected
	// TTY tells that they are a terminal's, and Resize has its sizes; Resize is nil without one.
	TTY    bool
	Resize <-chan TerminalSize
}

// TerminalSize is the size of a terminal in characters.
type TerminalSize struct{ Width, Height uint16 }

// LogOpener is an optional part of a RuntimeService in the caller's process that keeps logs itself: there is no file at a
// container's LogPath.
type LogOpener interface {
	// OpenLog returns a reader of a container's log, at its beginning, or fails with ErrNotFound.
	OpenLog(ctx context.Context, id string) (Log, error)
}

// Log is one reader of a container's log, used by one goroutine at a time. There is nothing to close.
type Log interface {
	// Next returns some of the following lines, oldest first, and none if there are no more for now.
	Next() []LogLine
	// Wait blocks until Next may return more and returns true, or false if the container has ended and Next has returned
	// everything. It fails with the context's error when that ends.
	Wait(ctx context.Context) (bool, error)
}

// LogLine is a line that a container has written.
type LogLine struct {
	At     time.Time // when
	Stderr bool      // whether it was written to stderr, not to stdout
	Text   string    // without a line end
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
