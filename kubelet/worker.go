package kubelet

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet/decision"
)

// parts are the dependencies that a kubelet's workers share, each as narrow as they need it. They never change.
type parts struct {
	runtime  podRuntime
	images   imageRuntime
	host     *Host
	statuses statuses
	recorder
	observer Observer
	log      *slog.Logger
	// network says why pods cannot have networks of their own yet; empty means that they can.
	network     func() string
	node        decision.Node
	allocatable corev1.ResourceList
	// maxRestartDelay is the longest back-off between restarts of a container.
	maxRestartDelay time.Duration
	// classes finds the handlers of runtime classes.
	classes *runtimeClasses
	// For resizes; nil if the runtime cannot do them.
	resizer cri.Resizer
	stats   cri.StatsReader
}

// podRuntime is the part of the runtime that a worker uses.
//
//nolint:interfacebloat // composed of the narrow ones that it asks for
type podRuntime interface {
	cri.Sandboxes
	cri.SandboxReader
	cri.Containers
	cri.ContainerReader
	cri.Executor
}

// statuses is where a worker reports its pod's status.
type statuses interface {
	// set takes a pod's status; finish takes the last one of a pod that has ended, and may be called repeatedly.
	set(pod *corev1.Pod, status corev1.PodStatus, u urgency)
	finish(pod *corev1.Pod, status corev1.PodStatus)
	// drop forgets a pod that is gone for good.
	drop(uid types.UID)
}

// worker runs one pod, in its own goroutine. Everything it does follows from the newest state of the pod, its state in
// the runtime, and the time; so it only needs to know that something has changed.
type worker struct {
	*parts
	uid   types.UID
	wake  chan struct{} // holds one token while a sync is requested
	inbox inbox

	// Only used by the worker's goroutine:
	stage         decision.Stage
	status        corev1.PodStatus // the last one generated
	seen          decision.Observation
	due           time.Time // when to sync without being woken; zero means never
	rejected      bool      // by the node; the status says why
	began         time.Time // when the kubelet first saw the pod, if it had not started then
	startReported bool      // the observer was notified of the start
	attempts
	probes *probes
	resize decision.Resize // without Pending, which is in the inbox
}

// attempts is what is remembered about containers that failed to start or to keep running.
type attempts struct {
	crash   *decision.Backoff
	puller  puller
	waiting map[string]decision.Waiting // by container
	// Back-offs for the volumes and for the sandbox.
	mountWait, sandboxWait time.Duration
	unmountedSince         time.Time // zero while the volumes are there
}

func newWorker(p *parts, pod *corev1.Pod) *worker {
	w := &worker{
		parts: p, uid: pod.UID, wake: make(chan struct{}, 1),
		inbox:  inbox{pod: pod, changed: true, idle: make(chan struct{})},
		status: *pod.Status.DeepCopy(),
		attempts: attempts{
			crash:   decision.NewBackoff(restartDelay, p.maxRestartDelay, restartCalm),
			puller:  newPuller(p),
			waiting: map[string]decision.Waiting{},
		},
	}
	if len(pod.Status.ContainerStatuses) == 0 {
		w.began = time.Now()
	}
	for key, wait := range p.host.Memory.Waits(pod.UID) {
		w.crash.Restore(key, wait.Delay, wait.Since)
	}
	if _, inForce, known := p.host.Memory.Allocation(pod.UID); known {
		w.resize.InForce = inForce
	} else if a := decision.InForceBefore(pod); !(decision.Resize{InForce: &a}).Settled(pod) {
		w.resize.InForce = &a
	}
	w.resize.Progress = conditionOf(pod, corev1.PodResizeInProgress)
	w.probes = newProbes(p, w.poke, &pod.Status)
	w.poke()
	return w
}

// poke makes the worker sync its pod.
func (w *worker) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// update passes a newer state of the pod to the worker.
func (w *worker) update(pod *corev1.Pod, gone bool) {
	if w.inbox.receive(pod, gone) {
		w.poke()
	}
}

// run works until the pod is gone for good or the context ends. It reports whether the pod is gone.
func (w *worker) run(ctx context.Context) (cleaned bool) {
	defer w.probes.stop()
	defer w.inbox.release()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Stop()
		if !w.due.IsZero() {
			timer.Reset(time.Until(w.due))
		}
		select {
		case <-ctx.Done():
			return false
		case <-w.wake:
		case <-timer.C:
		}
		if w.turn(ctx) {
			return true
		}
	}
}

// turn syncs the pod once. It reports whether the pod is gone and nothing is left of it.
func (w *worker) turn(parent context.Context) (cleaned bool) {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	w.inbox.interruptWith(cancel)
	defer w.inbox.interruptWith(nil)

	news := w.inbox.take()
	pod, gone := news.pod, news.gone
	w.takeGrant(pod, news.before)
	forced := news.changed || w.probes.changed()
	if !w.due.IsZero() && !time.Now().Before(w.due) {
		forced, w.due = true, time.Time{}
	}
	if gone || pod.DeletionTimestamp != nil || decision.Terminal(pod.Status.Phase) {
		w.stage = max(w.stage, decision.Terminating)
	}
	w.obeyEviction()
	if w.stage == decision.Running {
		began := time.Now()
		w.sync(ctx, pod, forced)
		w.observer.PodSynced(time.Since(began))
		w.tellStart(pod)
	}
	if w.stage == decision.Terminating && ctx.Err() == nil {
		w.due = time.Time{}
		w.terminate(ctx, pod, gone)
	}
	if w.stage == decision.Over {
		w.inbox.release()
		if gone {
			return w.cleanUp(ctx)
		}
		w.statuses.finish(pod, w.status)
	}
	return false
}

// tellStart notifies the observer once that all containers run.
func (w *worker) tellStart(pod *corev1.Pod) {
	if w.startReported || len(w.status.ContainerStatuses) < len(pod.Spec.Containers) {
		return
	}
	for _, s := range w.status.ContainerStatuses {
		if s.State.Running == nil {
			return
		}
	}
	w.startReported = true
	if w.began.IsZero() {
		return // they ran before this kubelet did
	}
	w.observer.PodStarted(pod.CreationTimestamp.Time, w.began, time.Now())
}

// lookAgain makes the worker sync its pod at that time, or earlier.
func (w *worker) lookAgain(at time.Time) {
	if w.due.IsZero() || at.Before(w.due) {
		w.due = at
	}
}

// sync brings a pod closer to its spec, as far as possible without waiting.
func (w *worker) sync(ctx context.Context, pod *corev1.Pod, forced bool) {
	created := 0
	for {
		o, err := w.observe(ctx)
		if err != nil {
			w.failed(ctx, pod, "error determining status: %v", err)
			return
		}
		if !forced && o.Equal(w.seen) {
			return
		}
		forced = true
		w.due = time.Time{}
		w.probes.follow(ctx, pod, o)
		w.followResize(pod, o)
		d := w.decide(pod, o)
		w.publish(pod, d.Status, provisional)
		w.stage = d.Stage
		if w.stage != decision.Running {
			return
		}
		if !d.Again.IsZero() {
			w.lookAgain(d.Again)
		}
		if d.Actions.CreateSandbox {
			if created++; created > 1 {
				w.lookAgain(time.Now().Add(plegPeriod)) // the new one is unusable
				break
			}
		}
		progress := w.execute(ctx, pod, o, d.Actions)
		if ctx.Err() != nil || w.rejected {
			return // the interruption means that there is newer state
		}
		if !progress {
			break
		}
	}
	w.report(pod, w.seen, settled)
}

// failed records that a sync failed, and schedules a retry.
func (w *worker) failed(ctx context.Context, pod *corev1.Pod, format string, err error) {
	if ctx.Err() != nil {
		return
	}
	w.lookAgain(time.Now().Add(retryPeriod))
	if errors.Is(err, cri.ErrUnavailable) {
		return // the node's status reports it; the pod is not affected
	}
	w.log.Warn("syncing a pod failed", "pod", pod.Namespace+"/"+pod.Name, "error", err)
	w.podEvent(pod, corev1.EventTypeWarning, "FailedSync", format, err)
}

// input is the input to the decision.
func (w *worker) input(pod *corev1.Pod, o decision.Observation) decision.Situation {
	w.seen = o
	in := decision.Situation{
		Pod: pod, Stage: w.stage, Previous: w.status, Observed: o, Waiting: w.waiting, Probes: w.probes.result, Backoff: w.crash,
		Node: w.node, Resize: w.resize, Now: time.Now(),
	}
	in.Resize.Pending = w.inbox.pending()
	if e := w.inbox.evicted(); e != nil {
		in.Disruption, in.MaxGrace = e.Condition, max(e.Grace, 1)
	}
	return in
}

// decide decides about the pod in its current state.
func (w *worker) decide(pod *corev1.Pod, o decision.Observation) decision.Decision {
	return decision.Decide(w.input(pod, o))
}

// report publishes the pod's status without acting on it.
func (w *worker) report(pod *corev1.Pod, o decision.Observation, u urgency) {
	w.publish(pod, decision.Status(w.input(pod, o)), u)
}

// publish hands the pod's status to the sender.
func (w *worker) publish(pod *corev1.Pod, status corev1.PodStatus, u urgency) {
	if status.Reason == decision.ReasonDeadlineExceeded && w.status.Reason != decision.ReasonDeadlineExceeded {
		w.podEvent(pod, corev1.EventTypeNormal, decision.ReasonDeadlineExceeded, decision.MessageDeadlineExceeded)
	}
	w.deviceHealth(&status)
	w.status = status
	if w.stage != decision.Over { // the caller finishes
		w.statuses.set(pod, status, u)
	}
}

// terminate stops everything that runs, and verifies it.
func (w *worker) terminate(ctx context.Context, pod *corev1.Pod, gone bool) {
	o, err := w.observe(ctx)
	if err != nil {
		w.failed(ctx, pod, "error determining status: %v", err)
		return
	}
	d := w.decide(pod, o)
	idle := len(d.Actions.Kill)+len(d.Actions.StopSandboxes) == 0
	if idle && (w.rejected || decision.Terminal(pod.Status.Phase)) && w.release(ctx) == nil {
		w.stage = decision.Over // its end has already been reported
		return
	}
	if !gone && !w.rejected {
		w.publish(pod, d.Status, provisional)
	}
	w.probes.stopRestarting()
	if err := w.killPod(ctx, pod, d.Actions); err != nil {
		if ctx.Err() == nil {
			w.podEvent(pod, corev1.EventTypeWarning, "FailedKillPod", "error killing pod: %v", err)
			w.log.Warn("killing a pod failed", "pod", pod.Namespace+"/"+pod.Name, "error", err)
			w.lookAgain(time.Now().Add(retryPeriod))
		}
		return
	}
	o, err = w.observe(ctx)
	if err != nil || len(o.Running()) > 0 {
		w.lookAgain(time.Now().Add(retryPeriod))
		return
	}
	w.probes.stop()
	if err := w.release(ctx); err != nil {
		if ctx.Err() == nil {
			w.log.Warn("releasing a pod's resources failed", "pod", pod.Namespace+"/"+pod.Name, "error", err)
			w.lookAgain(time.Now().Add(plegPeriod))
		}
		return
	}
	w.stage = decision.Over
	if !w.rejected {
		w.report(pod, o, settled)
	}
}

// cleanUp removes what the runtime still holds of a pod that is gone.
func (w *worker) cleanUp(ctx context.Context) (done bool) {
	o, err := w.observe(ctx)
	for _, s := range o.Sandboxes {
		if err == nil {
			err = w.runtime.RemovePodSandbox(ctx, s.ID)
		}
	}
	for _, c := range o.Containers {
		if err == nil {
			err = w.runtime.RemoveContainer(ctx, c.ID)
		}
	}
	if err == nil {
		err = w.release(ctx)
	}
	if err == nil {
		err = w.host.Memory.Forget(w.uid)
	}
	if err == nil && w.host.Logs.Dir != "" {
		err = os.RemoveAll(podLogDir(w.host.Logs.Dir, w.inbox.newest()))
	}
	if err != nil {
		w.log.Warn("removing what a pod left behind failed", "uid", w.uid, "error", err)
		w.due = time.Now().Add(retryPeriod)
		return false
	}
	w.statuses.drop(w.uid)
	return true
}
