package simulated

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/keelson-dev/keelson/cri"
)

// killedCode is the exit code of a killed process: 128 and SIGKILL.
const killedCode = 137

// CreateContainer prepares a container. The sandbox's configuration is known already.
func (r *Runtime) CreateContainer(ctx context.Context, sandboxID string, config cri.ContainerConfig, _ cri.SandboxConfig) (string, error) {
	op := r.sandboxOperation(CreateContainer, sandboxID)
	op.Container = config.Metadata
	op.Image = cmp.Or(config.Image.UserSpecified, config.Image.Image)
	if err := r.perform(ctx, op); err != nil {
		return "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.sandboxes[sandboxID]
	if !ok {
		return "", fmt.Errorf("sandbox %q: %w", sandboxID, cri.ErrNotFound)
	}
	if s.status.State != cri.SandboxReady {
		return "", fmt.Errorf("sandbox %q is not ready: %w", sandboxID, cri.ErrInvalid)
	}
	image, ok := r.images.find(config.Image.Image)
	if !ok {
		return "", fmt.Errorf("image %q: %w", config.Image.Image, cri.ErrNotFound)
	}
	id := identify("container", sandboxID, config.Metadata.Name, config.Metadata.Attempt)
	if config.Metadata.Name == "" || r.containers[id] != nil {
		return "", fmt.Errorf("container name %q is empty or reserved: %w", config.Metadata.Name, cri.ErrInvalid)
	}
	c := &container{
		sequence: r.next(), sandbox: s, done: make(chan struct{}),
		process: Process{
			Pod: s.status.Metadata, Container: config.Metadata, Image: op.Image,
			Command: config.Command, Args: config.Args,
		},
		status: copyContainer(cri.ContainerStatus{
			Container: cri.Container{
				ID: id, SandboxID: sandboxID, Metadata: config.Metadata,
				State: cri.ContainerCreated, Image: config.Image, ImageRef: reference(image),
				CreatedAt: time.Now(), Labels: config.Labels, Annotations: config.Annotations,
			},
			LogPath: config.LogPath, Mounts: config.Mounts, Resources: &config.Resources, StopSignal: config.StopSignal,
		}),
	}
	r.containers[id] = c
	r.publish(cri.EventCreated, id, s.status.Metadata)
	return id, nil
}

// StartContainer starts a created container.
func (r *Runtime) StartContainer(ctx context.Context, id string) error {
	op := r.containerOperation(StartContainer, id)
	if err := r.perform(ctx, op); err != nil {
		return err
	}
	var program Program
	if r.program != nil {
		if process, ok := r.process(id); ok {
			program = r.program(process)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.containers[id]
	switch {
	case !ok:
		return fmt.Errorf("container %q: %w", id, cri.ErrNotFound)
	case r.closed:
		return cri.ErrUnavailable
	case c.status.State != cri.ContainerCreated:
		return fmt.Errorf("container %q is %s: %w", id, c.status.State, cri.ErrInvalid)
	case c.sandbox.status.State != cri.SandboxReady:
		return fmt.Errorf("sandbox of container %q is not ready: %w", id, cri.ErrInvalid)
	}
	c.program = program
	c.status.State = cri.ContainerRunning
	c.status.StartedAt = time.Now()
	r.publish(cri.EventStarted, id, c.sandbox.status.Metadata)
	if program.Exits {
		r.exitAfter(c, program.After, program.ExitCode)
	}
	return nil
}

func (r *Runtime) process(id string) (Process, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.containers[id]
	if !ok {
		return Process{}, false
	}
	return c.process, true
}

// exitAfter sets the container's timer, replacing an earlier one. The caller must hold the lock.
func (r *Runtime) exitAfter(c *container, after time.Duration, code int32) {
	r.stopTimer(c)
	if after <= 0 {
		r.exit(c, code)
		return
	}
	r.timers.Add(1)
	var timer *time.Timer
	timer = time.AfterFunc(after, func() {
		defer r.timers.Done()
		r.mu.Lock()
		defer r.mu.Unlock()
		if c.timer == timer && !r.closed {
			c.timer = nil
			r.exit(c, code)
		}
	})
	c.timer = timer
}

func (r *Runtime) stopTimer(c *container) {
	if c.timer != nil && c.timer.Stop() {
		r.timers.Done()
	}
	c.timer = nil
}

// exit ends a running container. The caller must hold the lock.
func (r *Runtime) exit(c *container, code int32) {
	r.stopTimer(c)
	if c.status.State != cri.ContainerRunning {
		return
	}
	c.status.State = cri.ContainerExited
	c.status.FinishedAt = time.Now()
	r.spent += c.used(c.status.FinishedAt)
	c.status.ExitCode = code
	c.status.Reason = "Completed"
	if code != 0 {
		c.status.Reason = "Error"
	}
	if c.asked.IsZero() {
		c.status.Reason = cmp.Or(c.program.Reason, c.status.Reason)
	}
	c.status.Message = c.program.Message
	close(c.done)
	r.publish(cri.EventStopped, c.status.ID, c.sandbox.status.Metadata)
}

// StopContainer asks a container to end and waits for it.
func (r *Runtime) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	if err := r.perform(ctx, r.containerOperation(StopContainer, id)); err != nil {
		return err
	}
	done, err := r.askToStop(id, grace)
	if err != nil {
		return err
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-r.closing:
		return cri.ErrUnavailable
	}
}

// askToStop schedules the end of a container and returns the channel that is closed then.
func (r *Runtime) askToStop(id string, grace time.Duration) (<-chan struct{}, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.containers[id]
	if !ok {
		return nil, fmt.Errorf("container %q: %w", id, cri.ErrNotFound)
	}
	if c.status.State != cri.ContainerRunning {
		over := make(chan struct{})
		close(over)
		return over, nil
	}
	now := time.Now()
	kill := now.Add(max(grace, 0))
	if c.asked.IsZero() {
		c.asked, c.kill = now, kill
	}
	if kill.Before(c.kill) {
		c.kill = kill
	}
	end, code := c.end()
	r.exitAfter(c, end.Sub(now), code)
	return c.done, nil
}

// end returns when and how a stopping container ends: it is killed, unless it ends by itself before.
func (c *container) end() (at time.Time, code int32) {
	at, code = c.kill, killedCode
	if c.kill.Equal(c.asked) {
		return at, code
	}
	p := c.program
	if stop := c.asked.Add(p.StopAfter); !p.IgnoresStop && !stop.After(at) {
		at, code = stop, p.StopCode
	}
	if exit := c.status.StartedAt.Add(p.After); p.Exits && exit.Before(at) {
		at, code = exit, p.ExitCode
	}
	return at, code
}

// RemoveContainer removes a container, whatever its state.
func (r *Runtime) RemoveContainer(ctx context.Context, id string) error {
	if err := r.perform(ctx, r.containerOperation(RemoveContainer, id)); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if c, ok := r.containers[id]; ok {
		r.exit(c, killedCode)
		r.remove(c)
	}
	return nil
}

func (r *Runtime) remove(c *container) {
	delete(r.containers, c.status.ID)
	r.publish(cri.EventDeleted, c.status.ID, c.sandbox.status.Metadata)
}

func (r *Runtime) containerOperation(verb Verb, id string) Operation {
	r.mu.Lock()
	defer r.mu.Unlock()
	op := Operation{Verb: verb}
	if c, ok := r.containers[id]; ok {
		op.Pod, op.Container, op.Image = c.process.Pod, c.process.Container, c.process.Image
	}
	return op
}

// ContainerStatus describes one container.
func (r *Runtime) ContainerStatus(ctx context.Context, id string) (cri.ContainerStatus, error) {
	if err := r.perform(ctx, r.containerOperation(List, id)); err != nil {
		return cri.ContainerStatus{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.containers[id]
	if !ok {
		return cri.ContainerStatus{}, fmt.Errorf("container %q: %w", id, cri.ErrNotFound)
	}
	return copyContainer(c.status), nil
}

// ListContainers returns the containers that match, newest first.
func (r *Runtime) ListContainers(ctx context.Context, filter cri.Filter) ([]cri.Container, error) {
	if err := r.perform(ctx, Operation{Verb: List}); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	found := r.selected(filter)
	list := make([]cri.Container, 0, len(found))
	for _, c := range found {
		list = append(list, copyContainer(c.status).Container)
	}
	return list, nil
}

// selected returns the matching containers, newest first. The caller must hold the lock.
func (r *Runtime) selected(filter cri.Filter) []*container {
	var found []*container
	for id, c := range r.containers {
		if (filter.ID == "" || filter.ID == id) &&
			(filter.SandboxID == "" || filter.SandboxID == c.status.SandboxID) &&
			matches(c.status.Labels, filter.Labels) {
			found = append(found, c)
		}
	}
	newestFirst(found, func(c *container) uint64 { return c.sequence })
	return found
}

// ExecSync calls the Exec of the container's program, or else its Streams.Exec.
func (r *Runtime) ExecSync(ctx context.Context, id string, command []string, timeout time.Duration) (cri.ExecResult, error) {
	if timeout > 0 {
		limited, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		ctx = limited
	}
	op := r.containerOperation(Exec, id)
	op.Command = command
	if err := r.perform(ctx, op); err != nil {
		return cri.ExecResult{}, err
	}
	c, err := r.runningContainer(id)
	switch {
	case err != nil:
		return cri.ExecResult{}, err
	case c.program.Exec != nil:
		return c.program.Exec(command), nil
	case c.program.Streams.Exec != nil:
		var stdout, stderr bytes.Buffer
		code, err := r.exec(ctx, c, command, cri.StreamIO{Stdout: &stdout, Stderr: &stderr})
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return cri.ExecResult{Stdout: stdout.Bytes(), Stderr: stderr.Bytes(), ExitCode: code}, err
	case !r.Ready(id):
		return cri.ExecResult{ExitCode: 1}, nil
	default:
		return cri.ExecResult{}, nil
	}
}

// Ready reports whether a container has been running for its program's ReadyAfter: the answer to a network probe of a
// simulated container.
func (r *Runtime) Ready(id string) bool {
	c, err := r.runningContainer(id)
	return err == nil && !time.Now().Before(c.started.Add(c.program.ReadyAfter))
}

// Exit makes a running container end now, as if its process had exited.
func (r *Runtime) Exit(id string, code int32) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.containers[id]
	if !ok {
		return fmt.Errorf("container %q: %w", id, cri.ErrNotFound)
	}
	if c.status.State != cri.ContainerRunning {
		return fmt.Errorf("container %q is %s: %w", id, c.status.State, cri.ErrInvalid)
	}
	r.exit(c, code)
	return nil
}
