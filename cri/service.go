package cri

import (
	"context"
	"time"
)

// RuntimeService runs pods: sandboxes and the containers in them.
//
//nolint:interfacebloat // composed of narrow ones; the name is that of the CRI
type RuntimeService interface {
	Node
	Sandboxes
	SandboxReader
	Containers
	ContainerReader
	Executor
}

// ImageService keeps the images that containers are made of.
type ImageService interface {
	Puller
	ImageReader
}

// Node tells about the runtime as a whole.
type Node interface {
	// Version names the runtime and its version.
	Version(ctx context.Context) (Version, error)
	// Status says whether the runtime and its network can take pods.
	Status(ctx context.Context) (RuntimeStatus, error)
}

// Sandboxes makes and ends pod sandboxes: what the containers of a pod share, above all its
// network.
type Sandboxes interface {
	// RunPodSandbox creates a sandbox with its network and starts it; on success it is Ready. A
	// failed call leaves nothing behind that a later call for the same pod trips over.
	RunPodSandbox(ctx context.Context, config SandboxConfig) (id string, err error)
	// StopPodSandbox stops every container of the sandbox by force and gives its network back.
	// It may be called again, and succeeds for a sandbox that does not exist.
	StopPodSandbox(ctx context.Context, id string) error
	// RemovePodSandbox stops the sandbox if need be and removes it with all its containers. It
	// succeeds for a sandbox that does not exist.
	RemovePodSandbox(ctx context.Context, id string) error
}

// SandboxReader tells about sandboxes.
type SandboxReader interface {
	// SandboxStatus describes one sandbox, or fails with ErrNotFound.
	SandboxStatus(ctx context.Context, id string) (SandboxStatus, error)
	// ListSandboxes returns the sandboxes that match every field set in the filter, newest first.
	ListSandboxes(ctx context.Context, filter Filter) ([]Sandbox, error)
}

// Containers makes and ends containers.
//
//nolint:interfacebloat // the life of one container
type Containers interface {
	// CreateContainer prepares a container in a Ready sandbox without starting it; the sandbox's
	// configuration is the one that it was made with. It fails with ErrNotFound for a missing
	// sandbox or image.
	CreateContainer(ctx context.Context, sandboxID string, config ContainerConfig, sandbox SandboxConfig) (id string, err error)
	// StartContainer starts a Created container; in any other state it fails with ErrInvalid.
	StartContainer(ctx context.Context, id string) error
	// StopContainer asks the container to end, by force once the grace period is over (at once
	// if it is not above 0), and returns when it has ended. It may be called again, and succeeds
	// for a container that does not run. A call that is given up by its context does not take
	// back what it asked for. It fails with ErrNotFound for a container that does not exist.
	StopContainer(ctx context.Context, id string, grace time.Duration) error
	// RemoveContainer removes a container, by force if it runs. It succeeds for a container that
	// does not exist.
	RemoveContainer(ctx context.Context, id string) error
}

// ContainerReader tells about containers.
type ContainerReader interface {
	// ContainerStatus describes one container, or fails with ErrNotFound.
	ContainerStatus(ctx context.Context, id string) (ContainerStatus, error)
	// ListContainers returns the containers that match every field set in the filter, newest
	// first.
	ListContainers(ctx context.Context, filter Filter) ([]Container, error)
}

// Executor runs commands in running containers.
type Executor interface {
	// ExecSync runs a command in a running container and waits for it. A command that ran is no
	// error, whatever its exit code. When it takes longer than the timeout (0 is without one) it is
	// killed and the error is context.DeadlineExceeded.
	ExecSync(ctx context.Context, id string, command []string, timeout time.Duration) (ExecResult, error)
}

// ExecutorFunc is an Executor made of a function.
type ExecutorFunc func(ctx context.Context, id string, command []string, timeout time.Duration) (ExecResult, error)

// ExecSync calls f.
func (f ExecutorFunc) ExecSync(ctx context.Context, id string, command []string, timeout time.Duration) (ExecResult, error) {
	return f(ctx, id, command, timeout)
}

// Puller fetches and drops images.
type Puller interface {
	// PullImage fetches an image and returns the reference that names exactly what was
	// fetched, to be used in a ContainerConfig. Pulling what is there already asks the registry
	// again.
	PullImage(ctx context.Context, image ImageSpec, auth *Auth) (ref string, err error)
	// RemoveImage drops an image; it succeeds for one that is not there.
	RemoveImage(ctx context.Context, image ImageSpec) error
}

// ImageReader tells about images.
type ImageReader interface {
	// ImageStatus describes an image that is there, or fails with ErrNotFound.
	ImageStatus(ctx context.Context, image ImageSpec) (Image, error)
	// ListImages returns every image that is there, in the order of their ids.
	ListImages(ctx context.Context) ([]Image, error)
}

// EventSource is an optional part of a RuntimeService: a runtime that tells of changes, so that
// nobody needs to poll it. Whoever uses it lists once in a while all the same.
type EventSource interface {
	// Events opens a stream of everything that happens from now on; behind a socket, from shortly
	// after.
	Events(ctx context.Context) (EventStream, error)
}

// EventSourceFunc is an EventSource made of a function.
type EventSourceFunc func(ctx context.Context) (EventStream, error)

// Events calls f.
func (f EventSourceFunc) Events(ctx context.Context) (EventStream, error) { return f(ctx) }

// EventStream is one reader's stream of events, used by one goroutine at a time.
type EventStream interface {
	// Next blocks until something has happened and returns at least one event, oldest first. It
	// fails with ErrEventsLost when the reader fell behind, with ErrUnavailable when the runtime
	// is gone, with the context's error when it ends.
	Next(ctx context.Context) ([]Event, error)
	// Close releases the stream; it may be called more than once.
	Close()
}
