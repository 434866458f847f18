package kubelet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet/environment/expansion"
	"github.com/keelson-dev/keelson/kubelet/security"
)

// The back-off between attempts to mount a pod's volumes.
const (
	mountDelay    = 500 * time.Millisecond
	maxMountDelay = 2*time.Minute + 2*time.Second
)

// mountTimeout is how long volumes may be missing before a pod that can never have them is rejected. Upstream's kubelet
// waits for as long before it asks.
const mountTimeout = 2*time.Minute + 3*time.Second

// prepare sets up the pod's volumes, or updates them. If that fails, nothing new is started and it is retried later.
func (w *worker) prepare(ctx context.Context, pod *corev1.Pod) bool {
	volumes := w.host.Volumes
	err := volumes.Prepare(ctx, pod)
	switch {
	case err == nil:
		w.mountWait, w.unmountedSince = 0, time.Time{}
		if at := volumes.NextRefresh(w.uid); !at.IsZero() {
			if soonest := time.Now().Add(mountDelay); at.Before(soonest) {
				at = soonest // whatever the volumes say, the pod is not synced without end
			}
			w.lookAgain(at)
		}
	case ctx.Err() == nil:
		w.unmounted(pod, err)
	}
	return err == nil
}

// unmounted reports why volumes are missing, and schedules a retry.
func (w *worker) unmounted(pod *corev1.Pod, err error) {
	if w.unmountedSince.IsZero() {
		w.unmountedSince = time.Now()
	}
	var refusal *Refusal
	if errors.As(err, &refusal) && time.Since(w.unmountedSince) >= mountTimeout {
		w.reject(pod, *refusal)
		return
	}
	for _, err := range unjoined(err) {
		if err != error(refusal) { //nolint:errorlint // it is about the others
			w.podEvent(pod, corev1.EventTypeWarning, "FailedMount", "%v", err)
		}
	}
	w.mountWait = min(max(2*w.mountWait, mountDelay), maxMountDelay)
	var sooner interface{ RetryAfter() time.Duration }
	if errors.As(err, &sooner) {
		w.mountWait = min(w.mountWait, sooner.RetryAfter())
	}
	w.lookAgain(time.Now().Add(w.mountWait))
}

// unjoined returns the errors joined in one.
func unjoined(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

// release removes what the host holds for a pod whose containers have all stopped.
func (w *worker) release(ctx context.Context) error {
	host := w.host
	if err := host.Volumes.Release(ctx, w.uid); err != nil {
		return err
	}
	if claims := host.Devices.Claims; claims != nil {
		if err := claims.Release(ctx, w.uid); err != nil {
			return err
		}
	}
	if plugins := host.Devices.Plugins; plugins != nil {
		if err := plugins.Release(ctx, w.uid); err != nil {
			return err
		}
	}
	return host.Cgroups.Remove(ctx, w.uid)
}

// sandboxConfig returns the configuration of the pod's sandbox. A failure is recorded in an event and retried later.
func (w *worker) sandboxConfig(ctx context.Context, pod *corev1.Pod, attempt uint32) (cri.SandboxConfig, error) {
	host := w.host
	config := sandboxConfig(pod, attempt, host.Logs.Dir)
	failed := func(reason, format string, err error) (cri.SandboxConfig, error) {
		if ctx.Err() == nil {
			w.podEvent(pod, corev1.EventTypeWarning, reason, format, err)
			w.lookAgain(time.Now().Add(retryPeriod))
		}
		return config, err
	}
	var err error
	if config.CgroupParent, err = host.Cgroups.Ensure(ctx, w.inForce(pod)); err != nil {
		return failed("FailedCreatePodContainer", "unable to ensure pod container exists: %v", err)
	}
	if err = w.prepareDevices(ctx, pod); err != nil {
		return failed("FailedPrepareDynamicResources", "Failed to prepare dynamic resources: %v", err)
	}
	config.Overhead = overhead(pod)
	config.RuntimeHandler, err = w.classes.handler(ctx, pod)
	if err == nil {
		err = w.fillSandbox(&config, pod)
	}
	if err == nil && host.Logs.Dir != "" {
		err = os.MkdirAll(config.LogDirectory, 0o755)
	}
	if err != nil {
		return failed("FailedCreatePodSandBox", "Failed to create pod sandbox: %v", err)
	}
	return config, nil
}

// prepareDevices prepares the devices of the pod's claims. Pods with claims are refused if there are no Devices.
func (w *worker) prepareDevices(ctx context.Context, pod *corev1.Pod) error {
	if len(pod.Spec.ResourceClaims) == 0 || w.host.Devices.Claims == nil {
		return nil
	}
	return w.host.Devices.Claims.Prepare(ctx, pod)
}

// fillSandbox adds what the host decides: names and security.
func (w *worker) fillSandbox(config *cri.SandboxConfig, pod *corev1.Pod) error {
	host := w.host
	dns, warnings, err := host.Resolver.Resolve(pod)
	for _, warning := range warnings {
		reason, message, _ := strings.Cut(warning, ": ")
		w.podEvent(pod, corev1.EventTypeWarning, reason, "%s", message)
	}
	if err != nil {
		return err
	}
	config.DNS = dns
	if !pod.Spec.HostNetwork {
		names, err := host.Resolver.Names(pod)
		if err != nil {
			return err
		}
		config.Hostname = names.Kernel
	}
	if config.Namespaces, err = host.Security.Namespaces(pod, config.RuntimeHandler); err != nil {
		return err
	}
	config.Security, err = host.Security.Sandbox(pod)
	return err
}

// containerConfig returns the configuration of a container.
func (w *worker) containerConfig(ctx context.Context, l launch, c *corev1.Container, image pulledImage) (cri.ContainerConfig, error) {
	host := w.host
	pod := l.pod
	config := containerConfig(pod, c, l.attempt, image.ref)
	config.Resources = host.Cgroups.Resources(pod, c)
	if len(c.Resources.Claims) > 0 && host.Devices.Claims != nil {
		var err error
		if config.CDIDevices, err = host.Devices.Claims.CDIDevices(pod, c); err != nil {
			return config, err
		}
	}
	ips := l.ips
	if pod.Spec.HostNetwork {
		ips = w.node.HostIPs
	}
	env, warnings, err := host.Environment.Environment(ctx, EnvironmentRequest{
		Pod: pod, Container: c, IPs: ips, HostIPs: w.node.HostIPs, Allocatable: w.allocatable,
	})
	for _, warning := range warnings {
		w.podEvent(pod, corev1.EventTypeWarning, "InvalidEnvironmentVariableNames", "%s", warning)
	}
	if err != nil {
		return config, err
	}
	config.Env = env
	if err := w.addDevices(ctx, &config, pod, c); err != nil {
		return config, err
	}
	config.Command, config.Args = expansion.Args(c.Command, config.Env), expansion.Args(c.Args, config.Env)
	if err := w.secure(&config, l, c, image); err != nil {
		return config, err
	}
	if err := w.mount(ctx, &config, l, MountRequest{Pod: pod, Container: c, Env: env, IPs: ips}); err != nil {
		return config, err
	}
	if host.Logs.Dir != "" {
		if err := os.MkdirAll(path.Join(l.config.LogDirectory, path.Dir(config.LogPath)), 0o755); err != nil {
			return config, fmt.Errorf("create container log directory: %w", err)
		}
	}
	return config, nil
}

// secure adds the container's privileges and its shared namespaces.
func (w *worker) secure(config *cri.ContainerConfig, l launch, c *corev1.Container, image pulledImage) (err error) {
	config.Namespaces = l.config.Namespaces
	if target := targetOf(l.pod, c.Name); target != "" {
		seen := l.before.Latest(target)
		if seen == nil {
			return fmt.Errorf("unable to find target container %s", target)
		}
		config.Namespaces = security.Targeting(config.Namespaces, seen.ID)
	}
	config.Security, err = w.host.Security.Container(l.pod, c, image.Image)
	return err
}

// targetOf returns the container whose processes an ephemeral container is to see.
func targetOf(pod *corev1.Pod, name string) string {
	for _, e := range pod.Spec.EphemeralContainers {
		if e.Name == name {
			return e.TargetContainerName
		}
	}
	return ""
}

// mount adds the container's mounts.
func (w *worker) mount(ctx context.Context, config *cri.ContainerConfig, l launch, r MountRequest) (err error) {
	host := w.host
	names, err := host.Resolver.Names(l.pod)
	if err != nil {
		return err
	}
	r.Hostname, r.Domain = names.Hostname, names.Domain
	mounts, err := host.Volumes.Mounts(ctx, r)
	if err != nil {
		return err
	}
	config.Mounts = append(config.Mounts, mounts...)
	for i := range config.Mounts {
		m := &config.Mounts[i]
		if user := config.Namespaces.User; user != nil && user.Mode == cri.NamespacePod {
			m.UIDMappings, m.GIDMappings = user.UIDs, user.GIDs
		}
		if m.Image == nil {
			continue
		}
		image := *r.Container
		image.Image, image.ImagePullPolicy = m.Image.Image, pullPolicyOf(l.pod, m.Image.Image)
		pulled, err := w.puller.ensure(ctx, l.pod, &image)
		if err != nil {
			return err
		}
		m.Image = &cri.ImageSpec{Image: pulled.ref, UserSpecified: image.Image}
	}
	return nil
}

// pullPolicyOf returns the pull policy of an image volume.
func pullPolicyOf(pod *corev1.Pod, reference string) corev1.PullPolicy {
	for _, v := range pod.Spec.Volumes {
		if v.Image != nil && v.Image.Reference == reference {
			return v.Image.PullPolicy
		}
	}
	return corev1.PullIfNotPresent
}
