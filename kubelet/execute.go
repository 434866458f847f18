package kubelet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/cri"
)

// reasonRunContainerError: a container was made and could not be started.
const reasonRunContainerError = "RunContainerError"

// execute does what is to be done for the pod now. It reports whether the runtime's state was
// changed and there may be more to do at once; failures are kept as the containers' waiting
// reasons and tried again later.
func (w *worker) execute(ctx context.Context, pod *corev1.Pod, o observation) (progress bool) {
	now := time.Now()
	a := computeActions(situation{
		pod: pod, observed: o, probes: w.probes.result, backoff: w.crash, now: now,
	})
	if a.none() {
		w.prepare(ctx, pod)
		return false
	}
	err := w.clear(ctx, pod, o, a)
	if err != nil {
		w.failed(ctx, pod, "error killing pod: %v", err)
		return false
	}
	if a.KillPod && !a.CreateSandbox {
		return len(o.running()) > 0 || slices.ContainsFunc(o.sandboxes, isReady)
	}
	if !w.prepare(ctx, pod) {
		return len(a.Kill) > 0
	}
	l := launch{pod: pod, before: o, sandbox: a.SandboxID, ips: o.ips()}
	l.config, err = w.sandboxConfig(ctx, pod, a.Attempt)
	if err != nil {
		return len(a.Kill) > 0
	}
	if a.CreateSandbox && !w.createSandbox(ctx, &l) {
		return false
	}
	started, failed := w.startAll(ctx, l, a.Start)
	if a.CreateSandbox || len(a.Kill) > 0 || started || failed {
		if fresh, err := observe(ctx, w.k, w.uid); err == nil {
			w.seen = fresh
			w.probes.follow(ctx, pod, fresh)
		}
	}
	return !failed && (started || a.CreateSandbox || len(a.Kill) > 0)
}

// clear stops what has to be out of the way before anything starts.
func (w *worker) clear(ctx context.Context, pod *corev1.Pod, o observation, a actions) error {
	if a.KillPod {
		if a.CreateSandbox && a.SandboxID != "" {
			w.k.podEvent(pod, corev1.EventTypeNormal, "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
		}
		if err := w.killPod(ctx, pod, o, gracePeriod(pod)); err != nil {
			return err
		}
		if a.CreateSandbox {
			return w.purgeInit(ctx, pod, o)
		}
		return nil
	}
	for _, kill := range a.Kill {
		if err := w.killContainer(ctx, pod, kill, w.containerGrace(pod, kill)); err != nil {
			return err
		}
	}
	return nil
}

// purgeInit removes the init containers of earlier sandboxes: they run again in the new one.
func (w *worker) purgeInit(ctx context.Context, pod *corev1.Pod, o observation) error {
	for _, c := range o.containers {
		if _, k, ok := findContainer(pod, c.Metadata.Name); ok && k == initial {
			if err := w.removeContainer(ctx, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeContainer removes a container with its log.
func (w *worker) removeContainer(ctx context.Context, c cri.ContainerStatus) error {
	if err := w.k.runtime.RemoveContainer(ctx, c.ID); err != nil {
		return err
	}
	if c.LogPath == "" || w.k.options.Host.LogDir == "" {
		return nil
	}
	return w.k.options.Host.Logs.RemoveLog(c.LogPath)
}

// createSandbox makes the pod's sandbox and tells the API that its network is there.
func (w *worker) createSandbox(ctx context.Context, l *launch) bool {
	pod := l.pod
	if problem := w.k.node.networkProblem(); problem != "" && !isHostNetwork(pod) {
		w.k.podEvent(pod, corev1.EventTypeWarning, "NetworkNotReady", "network is not ready: %s", problem)
		w.lookAgain(time.Now().Add(plegPeriod))
		return false
	}
	id, err := w.k.runtime.RunPodSandbox(ctx, l.config)
	if err != nil {
		if ctx.Err() == nil {
			w.k.podEvent(pod, corev1.EventTypeWarning, "FailedCreatePodSandBox", "Failed to create pod sandbox: %v", err)
			w.sandboxWait = min(max(2*w.sandboxWait, plegPeriod), retryPeriod)
			w.lookAgain(time.Now().Add(w.sandboxWait))
		}
		return false
	}
	l.sandbox, w.sandboxWait = id, 0
	w.removeEmpty(ctx, l.before)
	if o, err := observe(ctx, w.k, w.uid); err == nil {
		l.ips = o.ips()
		w.publish(pod, o, provisional)
	}
	return true
}

// removeEmpty removes the pod's old sandboxes, but for those whose containers still tell something.
func (w *worker) removeEmpty(ctx context.Context, before observation) {
	for _, s := range before.sandboxes {
		used := slices.ContainsFunc(before.containers, func(c cri.ContainerStatus) bool { return c.SandboxID == s.ID })
		if used {
			continue
		}
		if err := w.k.runtime.RemovePodSandbox(ctx, s.ID); err != nil {
			w.k.log.Warn("removing an old sandbox failed", "sandbox", s.ID, "error", err)
		}
	}
}

// launch is what the containers that are started in one go have in common.
type launch struct {
	pod     *corev1.Pod
	before  observation // from before anything was started
	sandbox string
	ips     []string // the sandbox's
	config  cri.SandboxConfig
}

// startAll starts the containers in order. An init container that cannot start holds up the ones
// after it, a sidecar does not.
func (w *worker) startAll(ctx context.Context, l launch, list []starting) (started, failed bool) {
	for _, st := range list {
		c := &containersOf(l.pod, st.Kind)[st.Index]
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
		if st.Kind == initial && !isSidecar(c) {
			break
		}
	}
	return started, failed
}

func (w *worker) noteFailure(c *corev1.Container, err error) {
	retry := time.Now().Add(retryPeriod)
	why := waiting{reasonRunContainerError, err.Error()}
	var f *failure
	if errors.As(err, &f) {
		why = f.waiting
		if !f.retry.IsZero() {
			retry = f.retry
		}
	}
	w.waiting[c.Name] = why
	w.lookAgain(retry)
}

// startOne pulls the image, creates and starts the container and runs its post-start hook.
func (w *worker) startOne(ctx context.Context, l launch, c *corev1.Container, st starting) error {
	pod, o := l.pod, l.before
	if !st.Until.IsZero() {
		return w.backingOff(pod, c, st)
	}
	if exited := o.latestExited(c.Name); exited != nil {
		w.lengthenWait(backoffKey(c), exited.FinishedAt)
	}
	image, err := w.ensureImage(ctx, pod, c)
	if err != nil {
		if f := (*failure)(nil); errors.As(err, &f) {
			w.k.containerEvent(subject{pod, c.Name, ""}, corev1.EventTypeWarning, "Failed", "Error: "+f.Reason)
		}
		return err
	}
	if err := w.removeOld(ctx, o, c.Name); err != nil { // another call for it is not over yet
		return &failure{waiting: waiting{"CreateContainerError", err.Error()}, retry: time.Now().Add(plegPeriod)}
	}
	config, err := w.containerConfig(ctx, l, c, image)
	if err != nil {
		if ctx.Err() == nil {
			w.k.containerEvent(subject{pod, c.Name, ""}, corev1.EventTypeWarning, "Failed", fmt.Sprintf("Error: %v", err))
		}
		if f := (*failure)(nil); errors.As(err, &f) {
			return err // of an image volume
		}
		return &failure{waiting: waiting{"CreateContainerConfigError", err.Error()}}
	}
	id, err := w.k.runtime.CreateContainer(ctx, l.sandbox, config, l.config)
	if err != nil {
		w.k.containerEvent(subject{pod, c.Name, id}, corev1.EventTypeWarning, "Failed", "Error: "+cri.Description(err))
		return &failure{waiting: waiting{"CreateContainerError", cri.Description(err)}}
	}
	w.k.containerEvent(subject{pod, c.Name, id}, corev1.EventTypeNormal, "Created", "Container created")
	if err := w.k.runtime.StartContainer(ctx, id); err != nil {
		w.k.containerEvent(subject{pod, c.Name, id}, corev1.EventTypeWarning, "Failed", "Error: "+cri.Description(err))
		return &failure{waiting: waiting{reasonRunContainerError, cri.Description(err)}}
	}
	w.k.containerEvent(subject{pod, c.Name, id}, corev1.EventTypeNormal, "Started", "Container started")
	return w.postStart(ctx, pod, c, id)
}

// nextAttempt is the restart count of a container's next instance: one more than the latest, or
// what the status says where the runtime has lost that.
func (w *worker) nextAttempt(o observation, name string) uint32 {
	if latest := o.latest(name); latest != nil {
		if w.neverStarted(latest) {
			return latest.Metadata.Attempt
		}
		return latest.Metadata.Attempt + 1
	}
	for _, list := range [][]corev1.ContainerStatus{w.status.ContainerStatuses, w.status.InitContainerStatuses} {
		if s := findStatus(list, name); s != nil && s.State.Terminated != nil {
			return uint32(s.RestartCount) + 1
		} else if s != nil {
			return uint32(s.RestartCount)
		}
	}
	return 0
}

// neverStarted reports whether a kubelet of before ended between making the container and starting it: nobody knows
// of it, and the next one takes its place.
func (w *worker) neverStarted(c *cri.ContainerStatus) bool {
	return c.State == cri.ContainerCreated && w.waiting[c.Metadata.Name].Reason != reasonRunContainerError
}

// lengthenWait makes the restart after the one that is about to happen wait longer, also for the next kubelet.
func (w *worker) lengthenWait(key string, ended time.Time) {
	w.crash.next(key, ended, time.Now())
	e := w.crash.entries[key]
	if err := w.k.options.Host.Memory.SetWait(w.uid, key, Wait{Delay: e.delay, Since: e.update}); err != nil {
		w.k.log.Warn("the wait of a failing container is not remembered", "uid", w.uid, "error", err)
	}
}

// backingOff says that a container waits before it is started again.
func (w *worker) backingOff(pod *corev1.Pod, c *corev1.Container, st starting) error {
	if w.waiting[c.Name].Reason != "CrashLoopBackOff" {
		w.k.containerEvent(subject{pod, c.Name, ""}, corev1.EventTypeWarning, "BackOff",
			fmt.Sprintf("Back-off restarting failed container %s in pod %s", c.Name, describe(pod)))
	}
	message := fmt.Sprintf("back-off %s restarting failed container=%s pod=%s", st.Delay, c.Name, describe(pod))
	return &failure{waiting: waiting{"CrashLoopBackOff", message}, retry: st.Until}
}

// removeOld removes all but the latest instance of a container that is about to be replaced: one
// dead instance is kept for its logs and its end.
func (w *worker) removeOld(ctx context.Context, o observation, name string) error {
	kept := false
	for i := range o.containers {
		c := &o.containers[i]
		if c.Metadata.Name != name || c.State == cri.ContainerRunning {
			continue
		}
		if !kept && !w.neverStarted(c) {
			kept = true
			continue
		}
		if err := w.removeContainer(ctx, *c); err != nil {
			return err
		}
	}
	return nil
}
