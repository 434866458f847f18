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

// ImageService manages the images for containers.
type ImageService interface {
	Puller
	ImageReader
}

// Node reports on the runtime as a whole.
type Node interface {
	// Version names the runtime and its version.
	Version(ctx context.Context) (Version, error)
	// Status reports whether the runtime and its network can take pods.
	Status(ctx context.Context) (RuntimeStatus, error)
}

// Sandboxes creates and ends pod sandboxes: what the containers of a pod share, above all its network.
type Sandboxes interface {
	// RunPodSandbox creates a sandbox with its network and starts it; on success it is Ready. A failed call leaves
	// nothing behind that would make a later call for the same pod fail.
	RunPodSandbox(ctx context.Context, config SandboxConfig) (id string, err error)
	// StopPodSandbox kills every container of the sandbox and releases its network. It may be called again, and
	// succeeds for a sandbox that does not exist.
	StopPodSandbox(ctx context.Context, id string) error
	// RemovePodSandbox stops the sandbox if need be and removes it with all its containers. It
	// succeeds for a sandbox that does not exist.
	RemovePodSandbox(ctx context.Context, id string) error
}

// SandboxReader reads the state of sandboxes.
type SandboxReader interface {
	// SandboxStatus describes one sandbox, or fails with ErrNotFound.
	SandboxStatus(ctx context.Context, id string) (SandboxStatus, error)
	// ListSandboxes returns the sandboxes that match every field set in the filter, newest first.
	ListSandboxes(ctx context.Context, filter Filter) ([]Sandbox, error)
}

// Containers creates and ends containers.
//
//nolint:interfacebloat // the life of one container
type Containers interface {
	// CreateContainer prepares a container in a Ready sandbox without starting it; sandbox is the configuration that
	// the sandbox was created with. It fails with ErrNotFound for a missing sandbox or image.
	CreateContainer(ctx context.Context, sandboxID string, config ContainerConfig, sandbox SandboxConfig) (id string, err error)
	// StartContainer starts a Created container; in any other state it fails with ErrInvalid.
	StartContainer(ctx context.Context, id string) error
	// StopContainer asks the container to end, kills it after the grace period (at once if that is not above 0), and
	// returns when it has ended. It may be called again, and succeeds for a container that does not run. If its context
	// ends, the stop goes on. It fails with ErrNotFound for a container that does not exist.
	StopContainer(ctx context.Context, id string, grace time.Duration) error
	// RemoveContainer removes a container, by force if it runs. It succeeds for a container that
	// does not exist.
	RemoveContainer(ctx context.Context, id string) error
}

// ContainerReader reads the state of containers.
type ContainerReader interface {
	// ContainerStatus describes one container, or fails with ErrNotFound.
	ContainerStatus(ctx context.Context, id string) (ContainerStatus, error)
	// ListContainers returns the containers that match every field set in the filter, newest
	// first.
	ListContainers(ctx context.Context, filter Filter) ([]Container, error)
}

// Executor runs commands in running containers.
type Executor interface {
	// ExecSync runs a command in a running container and waits for it. A nonzero exit code is not an error. When the
	// command exceeds the timeout (0 means none) it is killed and the error is context.DeadlineExceeded.
	ExecSync(ctx context.Context, id string, command []string, timeout time.Duration) (ExecResult, error)
}

// ExecutorFunc adapts a function to Executor.
type ExecutorFunc func(ctx context.Context, id string, command []string, timeout time.Duration) (ExecResult, error)

// ExecSync calls f.
func (f ExecutorFunc) ExecSync(ctx context.Context, id string, command []string, timeout time.Duration) (ExecResult, error) {
	return f(ctx, id, command, timeout)
}

// Puller pulls and removes images.
type Puller interface {
	// PullImage pulls an image and returns the reference of exactly this image, for a ContainerConfig. Pulling an
	// existing image asks the registry again.
	PullImage(ctx context.Context, image ImageSpec, auth *Auth) (ref string, err error)
	// RemoveImage removes an image; it succeeds for one that does not exist.
	RemoveImage(ctx context.Context, image ImageSpec) error
}

// ImageReader reads which images exist.
type ImageReader interface {
	// ImageStatus describes an existing image, or fails with ErrNotFound.
	ImageStatus(ctx context.Context, image ImageSpec) (Image, error)
	// ListImages returns every image, in the order of their IDs.
	ListImages(ctx context.Context) ([]Image, error)
}

// EventSource is an optional part of a RuntimeService: a runtime that reports changes, so that clients need not poll
// often. They should still list from time to time.
type EventSource interface {
	// Events opens a stream of all events from now on; behind a socket, from shortly after.
	Events(ctx context.Context) (EventStream, error)
}

// EventSourceFunc adapts a function to EventSource.
type EventSourceFunc func(ctx context.Context) (EventStream, error)

// Events calls f.
func (f EventSourceFunc) Events(ctx context.Context) (EventStream, error) { return f(ctx) }

// EventStream is one reader's stream of events, used by one goroutine at a time.
type EventStream interface {
	// Next blocks until something has happened and returns at least one event, oldest first. It fails with
	// ErrEventsLost when the reader fell behind, with ErrUnavailable when the runtime is gone, with the context's error
	// when that ends.
	Next(ctx context.Context) ([]Event, error)
	// Close releases the stream; it may be called more than once.
	Close()
}
