package kubelet

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/pause"
	"github.com/keelson-dev/keelson/kubelet/decision"
)

// postStart runs a container's post-start hook. A container whose hook fails is killed.
func (w *worker) postStart(ctx context.Context, pod *corev1.Pod, c *corev1.Container, id string) error {
	if c.Lifecycle == nil || c.Lifecycle.PostStart == nil {
		return nil
	}
	err := w.runHook(ctx, pod, c, id, c.Lifecycle.PostStart)
	if err == nil || ctx.Err() != nil {
		return err
	}
	// The error may hold secrets, so the event does not repeat it.
	w.containerEvent(subject{pod, c.Name, id}, corev1.EventTypeWarning, "FailedPostStartHook", "PostStartHook failed")
	kill := decision.Kill{ID: id, Name: c.Name, Message: "FailedPostStartHook", Grace: decision.Grace(pod)}
	if kerr := w.killContainer(ctx, pod, kill); kerr != nil {
		w.log.Warn("killing a container whose hook failed", "uid", w.uid, "container", c.Name, "error", kerr)
	}
	return &failure{Waiting: because("PostStartHookError", err.Error())}
}

// preStop runs a container's pre-stop hook, limited by the grace period, and returns how long it took.
func (w *worker) preStop(ctx context.Context, pod *corev1.Pod, c *corev1.Container, id string, grace time.Duration) time.Duration {
	if c.Lifecycle == nil || c.Lifecycle.PreStop == nil {
		return 0
	}
	start := time.Now()
	limited, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	if err := w.runHook(limited, pod, c, id, c.Lifecycle.PreStop); err != nil && limited.Err() == nil {
		w.containerEvent(subject{pod, c.Name, id}, corev1.EventTypeWarning, "FailedPreStopHook", "PreStopHook failed")
	}
	return time.Since(start)
}

// runHook runs one handler. HTTP handlers go to the host's Hooks.
func (w *worker) runHook(ctx context.Context, pod *corev1.Pod, c *corev1.Container, id string, h *corev1.LifecycleHandler) error {
	failed := func(what, how string, err error, more string) error {
		return fmt.Errorf("%s lifecycle hook (%s) for Container %q in Pod %q failed - error: %w%s", what, how, c.Name, decision.Describe(pod), err, more)
	}
	switch {
	case h.Exec != nil:
		result, err := w.runtime.ExecSync(ctx, id, h.Exec.Command, 0)
		if err == nil && result.ExitCode != 0 {
			err = fmt.Errorf("command '%s' exited with %d: %s", strings.Join(h.Exec.Command, " "), result.ExitCode, result.Stderr)
		}
		if err != nil {
			output := slices.Concat(result.Stdout, result.Stderr)
			return failed("Exec", fmt.Sprint(h.Exec.Command), err, fmt.Sprintf(", message: %q", output))
		}
	case h.Sleep != nil:
		if err := pause.For(ctx, time.Duration(h.Sleep.Seconds)*time.Second); err != nil {
			return failed("Sleep", fmt.Sprint(h.Sleep.Seconds), err, "")
		}
	case h.HTTPGet != nil:
		probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: h.HTTPGet}}
		target := ProbeTarget{Pod: pod, Container: c, ContainerID: id, IPs: w.seen.IPs(), Probe: probe}
		if err := w.host.Hooks.Probe(ctx, target); err != nil {
			return failed("HTTP", h.HTTPGet.Path, err, "")
		}
	default: // the API accepts tcpSocket only for old clients
		return fmt.Errorf("invalid handler: %v", h)
	}
	return nil
}
