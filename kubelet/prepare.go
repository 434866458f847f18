package kubelet

import (
	"context"
	"fmt"
	"os"
	"path"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/cri"
)

// The waits between attempts to mount a pod's volumes.
const (
	mountDelay    = 500 * time.Millisecond
	maxMountDelay = 2*time.Minute + 2*time.Second
)

// prepare makes the pod's volumes ready, or brings them up to date. When that fails nothing new
// is started, and it is tried again later.
func (w *worker) prepare(ctx context.Context, pod *corev1.Pod) bool {
	err := w.k.options.Host.Volumes.Prepare(ctx, pod)
	if err == nil {
		w.mountWait = 0
		return true
	}
	if ctx.Err() == nil {
		w.k.podEvent(pod, corev1.EventTypeWarning, "FailedMount", "%v", err)
		w.mountWait = min(max(2*w.mountWait, mountDelay), maxMountDelay)
		w.retry = true
		w.lookAgain(time.Now().Add(w.mountWait))
	}
	return false
}

// release takes away what the host keeps for a pod of which nothing runs any more.
func (w *worker) release(ctx context.Context) error {
	host := w.k.options.Host
	if err := host.Volumes.Release(ctx, w.uid); err != nil {
		return err
	}
	return host.Cgroups.Remove(ctx, w.uid)
}

// sandboxConfig is what the runtime needs to make the pod's sandbox. A failure was told in an
// event, and is tried again later.
func (w *worker) sandboxConfig(ctx context.Context, pod *corev1.Pod, attempt uint32) (cri.SandboxConfig, error) {
	host := w.k.options.Host
	config := sandboxConfig(pod, attempt, host.LogDir)
	failed := func(reason, format string, err error) (cri.SandboxConfig, error) {
		if ctx.Err() == nil {
			w.k.podEvent(pod, corev1.EventTypeWarning, reason, format, err)
			w.retry = true
			w.lookAgain(time.Now().Add(retryPeriod))
		}
		return config, err
	}
	var err error
	if config.CgroupParent, err = host.Cgroups.Ensure(ctx, pod); err != nil {
		return failed("FailedCreatePodContainer", "unable to ensure pod container exists: %v", err)
	}
	var warnings []string
	config.DNS, warnings, err = host.Resolver.Resolve(pod)
	for _, warning := range warnings {
		w.k.podEvent(pod, corev1.EventTypeWarning, "DNSConfigForming", "%s", warning)
	}
	if err == nil && host.LogDir != "" {
		err = os.MkdirAll(config.LogDirectory, 0o755)
	}
	if err != nil {
		return failed("FailedCreatePodSandBox", "Failed to create pod sandbox: %v", err)
	}
	return config, nil
}

// containerConfig is what the runtime needs to make a container. Its number among the container's
// instances is the caller's to set.
func (w *worker) containerConfig(ctx context.Context, l launch, c *corev1.Container, image pulledImage) (cri.ContainerConfig, error) {
	host := w.k.options.Host
	pod, attempt := l.pod, w.nextAttempt(l.before, c.Name)
	config := containerConfig(pod, c, attempt, image.ref)
	config.Resources = host.Cgroups.Resources(pod, c)
	ips := l.ips
	if isHostNetwork(pod) {
		ips = w.k.hostIPs
	}
	env, warnings, err := host.Environment.Environment(ctx, EnvironmentRequest{
		Pod: pod, Container: c, IPs: ips, HostIPs: w.k.hostIPs, Allocatable: w.k.options.Allocatable,
	})
	for _, warning := range warnings {
		w.k.podEvent(pod, corev1.EventTypeWarning, "InvalidEnvironmentVariableNames", "%s", warning)
	}
	if err != nil {
		return config, err
	}
	config.Env = env
	config.Command, config.Args = expandAll(c.Command, env), expandAll(c.Args, env)
	config.Mounts, err = host.Volumes.Mounts(ctx, MountRequest{
		Pod: pod, Container: c, Env: env, IPs: ips, Hostname: l.config.Hostname,
	})
	if err != nil {
		return config, err
	}
	if host.LogDir != "" {
		if err := os.MkdirAll(path.Join(l.config.LogDirectory, path.Dir(config.LogPath)), 0o755); err != nil {
			return config, fmt.Errorf("create container log directory: %w", err)
		}
	}
	return config, nil
}
