package kubelet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet/decision"
)

// execute carries out the decision about the pod. It reports whether it changed the runtime's state, so that there may
// be more to do at once. Failures become the containers' waiting reasons and are retried later.
func (w *worker) execute(ctx context.Context, pod *corev1.Pod, o decision.Observation, a decision.Actions) (progress bool) {
	if a.None() {
		w.prepare(ctx, pod)
		return false
	}
	if err := w.clear(ctx, pod, a); err != nil {
		w.failed(ctx, pod, "error killing pod: %v", err)
		return false
	}
	killed := len(a.Kill) > 0
	if a.KillPod && !a.CreateSandbox {
		return killed || len(a.StopSandboxes) > 0
	}
	if w.allocateDevices(ctx, pod) != nil || !w.prepare(ctx, pod) {
		return false
	}
	l := launch{pod: pod, before: o, sandbox: a.SandboxID, ips: o.IPs()}
	var err error
	l.config, err = w.sandboxConfig(ctx, pod, a.Attempt)
	if err != nil {
		return false
	}
	resized := !a.Resize.None() && w.resizePod(ctx, pod, a.Resize)
	if a.CreateSandbox && !w.createSandbox(ctx, &l) {
		return false
	}
	started, failed := w.startAll(ctx, l, a.Start)
	changed := a.CreateSandbox || killed || started || resized
	if changed || failed {
		if fresh, err := w.observe(ctx); err == nil {
			w.seen = fresh
			w.probes.follow(ctx, pod, fresh)
		}
	}
	return !failed && changed
}

// clear stops and removes whatever must be gone before anything starts.
func (w *worker) clear(ctx context.Context, pod *corev1.Pod, a decision.Actions) error {
	if a.CreateSandbox && a.SandboxID != "" {
		w.podEvent(pod, corev1.EventTypeNormal, "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
	}
	if a.KillPod {
		if err := w.killPod(ctx, pod, a); err != nil {
			return err
		}
	} else {
		for _, kill := range a.Kill {
			if err := w.killContainer(ctx, pod, kill); err != nil {
				return err
			}
		}
	}
	for _, c := range a.Remove {
		if err := w.removeContainer(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// removeContainer removes a container with its log.
func (w *worker) removeContainer(ctx context.Context, c cri.ContainerStatus) error {
	if err := w.runtime.RemoveContainer(ctx, c.ID); err != nil {
		return err
	}
	if c.LogPath == "" || w.host.Logs.Dir == "" {
		return nil
	}
	return w.host.Logs.Remover.RemoveLog(c.LogPath)
}

// createSandbox creates the pod's sandbox and reports its network in the pod's status.
func (w *worker) createSandbox(ctx context.Context, l *launch) bool {
	pod := l.pod
	if problem := w.network(); problem != "" && !pod.Spec.HostNetwork {
		w.podEvent(pod, corev1.EventTypeWarning, "NetworkNotReady", "network is not ready: %s", problem)
		w.lookAgain(time.Now().Add(plegPeriod))
		return false
	}
	id, err := w.runtime.RunPodSandbox(ctx, l.config)
	if err != nil {
		if ctx.Err() == nil {
			w.podEvent(pod, corev1.EventTypeWarning, "FailedCreatePodSandBox", "Failed to create pod sandbox: %v", err)
			w.sandboxWait = min(max(2*w.sandboxWait, plegPeriod), retryPeriod)
			w.lookAgain(time.Now().Add(w.sandboxWait))
		}
		return false
	}
	l.sandbox, w.sandboxWait = id, 0
	w.removeEmpty(ctx, l.before)
	if o, err := w.observe(ctx); err == nil {
		l.ips = o.IPs()
		w.report(pod, o, provisional)
	}
	return true
}

// removeEmpty removes the pod's old sandboxes, except those whose containers still have something to report.
func (w *worker) removeEmpty(ctx context.Context, before decision.Observation) {
	for _, s := range before.Sandboxes {
		used := slices.ContainsFunc(before.Containers, func(c cri.ContainerStatus) bool { return c.SandboxID == s.ID })
		if used {
			continue
		}
		if err := w.runtime.RemovePodSandbox(ctx, s.ID); err != nil {
			w.log.Warn("removing an old sandbox failed", "sandbox", s.ID, "error", err)
		}
	}
}

// launch is what containers that are started together have in common.
type launch struct {
	pod     *corev1.Pod
	before  decision.Observation // from before anything was started
	sandbox string
	ips     []string // the sandbox's
	config  cri.SandboxConfig
	attempt uint32 // the container's
}

// startAll starts the containers in order. One that cannot start does not block those after it.
func (w *worker) startAll(ctx context.Context, l launch, list []decision.Start) (started, failed bool) {
	for _, st := range list {
		c := &decision.Containers(l.pod, st.Kind)[st.Index]
		err := w.startOne(ctx, l, c, st)
		if ctx.Err() != nil {
			return started, true
		}
		if err == nil {
			delete(w.waiting, c.Name)
			started = true
			continue
		}
		failed = true
		w.noteFailure(c, err)
	}
	return started, failed
}

func (w *worker) noteFailure(c *corev1.Container, err error) {
	retry := time.Now().Add(retryPeriod)
	why := because(decision.ReasonRunContainerError, err.Error())
	var f *failure
	if errors.As(err, &f) {
		why = f.Waiting
		if !f.retry.IsZero() {
			retry = f.retry
		}
	}
	w.waiting[c.Name] = why
	w.lookAgain(retry)
}

// startOne pulls the image, creates and starts the container and runs its post-start hook.
func (w *worker) startOne(ctx context.Context, l launch, c *corev1.Container, st decision.Start) error {
	pod, o := l.pod, l.before
	l.attempt = st.Attempt
	if !st.Until.IsZero() {
		return w.backingOff(pod, c, st)
	}
	if exited := o.LatestExited(c.Name); exited != nil {
		w.lengthenWait(decision.BackoffKey(c), exited.FinishedAt)
	}
	image, err := w.puller.ensure(ctx, pod, c)
	if err != nil {
		if f := (*failure)(nil); errors.As(err, &f) {
			w.containerEvent(subject{pod, c.Name, ""}, corev1.EventTypeWarning, "Failed", "Error: "+f.Reason)
		}
		return err
	}
	for _, old := range st.Replace {
		if err := w.removeContainer(ctx, old); err != nil { // another call for it is still running
			return &failure{Waiting: because("CreateContainerError", err.Error()), retry: time.Now().Add(plegPeriod)}
		}
	}
	config, err := w.containerConfig(ctx, l, c, image)
	if err != nil {
		if ctx.Err() == nil {
			w.containerEvent(subject{pod, c.Name, ""}, corev1.EventTypeWarning, "Failed", fmt.Sprintf("Error: %v", err))
		}
		if f := (*failure)(nil); errors.As(err, &f) {
			return err // of an image volume
		}
		return &failure{Waiting: because("CreateContainerConfigError", err.Error())}
	}
	id, err := w.runtime.CreateContainer(ctx, l.sandbox, config, l.config)
	if err != nil {
		w.containerEvent(subject{pod, c.Name, id}, corev1.EventTypeWarning, "Failed", "Error: "+cri.Description(err))
		return &failure{Waiting: because("CreateContainerError", cri.Description(err))}
	}
	w.noteStart(pod, c)
	w.containerEvent(subject{pod, c.Name, id}, corev1.EventTypeNormal, "Created", "Container created")
	if err := w.runtime.StartContainer(ctx, id); err != nil {
		w.containerEvent(subject{pod, c.Name, id}, corev1.EventTypeWarning, "Failed", "Error: "+cri.Description(err))
		return &failure{Waiting: because(decision.ReasonRunContainerError, cri.Description(err))}
	}
	w.containerEvent(subject{pod, c.Name, id}, corev1.EventTypeNormal, "Started", "Container started")
	return w.postStart(ctx, pod, c, id)
}

// lengthenWait lengthens the back-off for the restart after the coming one, and records it for the next kubelet.
func (w *worker) lengthenWait(key string, ended time.Time) {
	now := time.Now()
	delay := w.crash.Next(key, ended, now)
	if err := w.host.Memory.SetWait(w.uid, key, Wait{Delay: delay, Since: now}); err != nil {
		w.log.Warn("the back-off of a failing container was not recorded", "uid", w.uid, "error", err)
	}
}

// backingOff is the failure of a container that waits out its restart back-off.
func (w *worker) backingOff(pod *corev1.Pod, c *corev1.Container, st decision.Start) error {
	if w.waiting[c.Name].Reason != "CrashLoopBackOff" {
		w.containerEvent(subject{pod, c.Name, ""}, corev1.EventTypeWarning, "BackOff",
			fmt.Sprintf("Back-off restarting failed container %s in pod %s", c.Name, decision.Describe(pod)))
	}
	message := fmt.Sprintf("back-off %s restarting failed container=%s pod=%s", st.Delay, c.Name, decision.Describe(pod))
	return &failure{Waiting: because("CrashLoopBackOff", message), retry: st.Until}
}
