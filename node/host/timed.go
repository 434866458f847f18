package host

import (
	"context"
	"time"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet"
)

// timed measures the runtime's operations, under upstream's names.
type timed struct {
	kubelet.Runtime
	observe func(operation string, took time.Duration, err error)
}

// withEvents is a timed runtime with events.
type withEvents struct {
	timed
	cri.EventSource
}

// whole is a timed runtime with all optional parts that a kubelet uses.
type whole struct {
	withEvents
	cri.StatsReader
	resizer cri.Resizer
}

// timedRuntime keeps the optional parts that a kubelet uses, if the runtime has all of them, and otherwise its events.
func timedRuntime(r kubelet.Runtime, observe func(operation string, took time.Duration, err error)) kubelet.Runtime {
	t := timed{r, observe}
	source, events := r.(cri.EventSource)
	resizer, resizes := r.(cri.Resizer)
	stats, counts := r.(cri.StatsReader)
	switch {
	case events && resizes && counts:
		return whole{withEvents{t, source}, stats, resizer}
	case events:
		return withEvents{t, source}
	}
	return t
}

// UpdateContainerResources implements cri.Resizer.
func (w whole) UpdateContainerResources(ctx context.Context, id string, resources cri.Resources) (err error) {
	defer w.since(time.Now(), "update_container", &err)
	return w.resizer.UpdateContainerResources(ctx, id, resources)
}

func (t timed) since(began time.Time, operation string, err *error) {
	t.observe(operation, time.Since(began), *err)
}

func (t timed) RunPodSandbox(ctx context.Context, config cri.SandboxConfig) (id string, err error) {
	defer t.since(time.Now(), "run_podsandbox", &err)
	return t.Runtime.RunPodSandbox(ctx, config)
}

func (t timed) StopPodSandbox(ctx context.Context, id string) (err error) {
	defer t.since(time.Now(), "stop_podsandbox", &err)
	return t.Runtime.StopPodSandbox(ctx, id)
}

func (t timed) RemovePodSandbox(ctx context.Context, id string) (err error) {
	defer t.since(time.Now(), "remove_podsandbox", &err)
	return t.Runtime.RemovePodSandbox(ctx, id)
}

func (t timed) CreateContainer(ctx context.Context, sandbox string, config cri.ContainerConfig, pod cri.SandboxConfig) (id string, err error) {
	defer t.since(time.Now(), "create_container", &err)
	return t.Runtime.CreateContainer(ctx, sandbox, config, pod)
}

func (t timed) StartContainer(ctx context.Context, id string) (err error) {
	defer t.since(time.Now(), "start_container", &err)
	return t.Runtime.StartContainer(ctx, id)
}

func (t timed) StopContainer(ctx context.Context, id string, grace time.Duration) (err error) {
	defer t.since(time.Now(), "stop_container", &err)
	return t.Runtime.StopContainer(ctx, id, grace)
}

func (t timed) RemoveContainer(ctx context.Context, id string) (err error) {
	defer t.since(time.Now(), "remove_container", &err)
	return t.Runtime.RemoveContainer(ctx, id)
}

func (t timed) ContainerStatus(ctx context.Context, id string) (s cri.ContainerStatus, err error) {
	defer t.since(time.Now(), "container_status", &err)
	return t.Runtime.ContainerStatus(ctx, id)
}

func (t timed) ExecSync(ctx context.Context, id string, command []string, timeout time.Duration) (r cri.ExecResult, err error) {
	defer t.since(time.Now(), "exec_sync", &err)
	return t.Runtime.ExecSync(ctx, id, command, timeout)
}

func (t timed) PullImage(ctx context.Context, image cri.ImageSpec, auth *cri.Auth) (ref string, err error) {
	defer t.since(time.Now(), "pull_image", &err)
	return t.Runtime.PullImage(ctx, image, auth)
}

func (t timed) ImageStatus(ctx context.Context, image cri.ImageSpec) (i cri.Image, err error) {
	defer t.since(time.Now(), "image_status", &err)
	return t.Runtime.ImageStatus(ctx, image)
}
