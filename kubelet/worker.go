package kubelet

import (
	"context"
	"errors"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/cri"
)

// stage is how far a pod's life has come. It only moves forward.
type stage int

const (
	running     stage = iota // keep it as its spec says
	terminating              // end everything that runs
	over                     // nothing runs and nothing will; the last status is with the sender
)

// worker looks after one pod, in a goroutine of its own. Everything it does follows from the
// newest state of the pod, what the runtime has for it, and the time; so it needs to be told only
// that something has changed.
type worker struct {
	k    *Kubelet
	uid  types.UID
	wake chan struct{} // holds one token while there is something to look at
	news news

	// Of the goroutine alone:
	stage    stage
	status   corev1.PodStatus // as generated last
	seen     observation
	due      time.Time // when to look again without being woken; zero is never
	retry    bool      // the last look at it failed
	rejected bool      // refused by admission; its status says why
	began    time.Time // when the kubelet saw the pod, if it had not started then
	told     bool      // the observer knows that it has started
	attempts
	probes *probes
}

// attempts is what is remembered of containers that did not start or stay.
type attempts struct {
	crash      *backoff
	pulls      *backoff
	pullErrors map[string]string  // by image
	waiting    map[string]waiting // by container
	// How long to wait before volumes, or a sandbox, are tried again.
	mountWait, sandboxWait time.Duration
}

func newWorker(k *Kubelet, pod *corev1.Pod) *worker {
	w := &worker{
		k: k, uid: pod.UID, wake: make(chan struct{}, 1),
		news:   news{pod: pod, changed: true, idle: make(chan struct{})},
		status: *pod.Status.DeepCopy(),
		attempts: attempts{
			crash:      newBackoff(restartDelay, k.options.MaxRestartDelay, restartCalm),
			pulls:      newBackoff(pullDelay, maxPullDelay, 2*maxPullDelay),
			pullErrors: map[string]string{},
			waiting:    map[string]waiting{},
		},
	}
	if len(pod.Status.ContainerStatuses) == 0 {
		w.began = time.Now()
	}
	for key, wait := range k.options.Host.Memory.Waits(pod.UID) {
		w.crash.entries[key] = backoffEntry{delay: wait.Delay, update: wait.Since}
	}
	w.probes = newProbes(w, &pod.Status)
	w.poke()
	return w
}

// poke makes the worker look at its pod.
func (w *worker) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// update gives the worker a newer state of its pod.
func (w *worker) update(pod *corev1.Pod, gone bool) {
	if w.news.receive(pod, gone) {
		w.poke()
	}
}

// run works until the pod is gone for good or the context ends.
func (w *worker) run(ctx context.Context) {
	defer w.probes.stop()
	defer w.news.release()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Stop()
		if !w.due.IsZero() {
			timer.Reset(time.Until(w.due))
		}
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		case <-timer.C:
		}
		if w.turn(ctx) {
			w.k.forget(w)
			return
		}
	}
}

// turn looks at the pod once and does what there is to do. It reports whether the pod is gone and
// nothing is left of it.
func (w *worker) turn(parent context.Context) (buried bool) {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	w.news.interruptWith(cancel)
	defer w.news.interruptWith(nil)

	pod, gone, changed := w.news.take()
	forced := changed || w.probes.changed() || w.retry
	w.retry = false
	if !w.due.IsZero() && !time.Now().Before(w.due) {
		forced, w.due = true, time.Time{}
	}
	if gone || pod.DeletionTimestamp != nil || isTerminal(pod.Status.Phase) {
		w.stage = max(w.stage, terminating)
	}
	w.obeyEviction()
	if w.stage == running {
		began := time.Now()
		w.sync(ctx, pod, forced)
		w.k.options.Observer.PodSynced(time.Since(began))
		w.tellStart(pod)
	}
	if w.stage == terminating && ctx.Err() == nil {
		w.due = time.Time{}
		w.terminate(ctx, pod, gone)
	}
	if w.stage == over {
		w.news.release()
		if gone {
			return w.bury(ctx)
		}
		w.k.sender.finish(pod, w.status)
	}
	return false
}

// tellStart tells once that all containers run.
func (w *worker) tellStart(pod *corev1.Pod) {
	if w.told || len(w.status.ContainerStatuses) < len(pod.Spec.Containers) {
		return
	}
	for _, s := range w.status.ContainerStatuses {
		if s.State.Running == nil {
			return
		}
	}
	w.told = true
	if w.began.IsZero() {
		return // they ran before this kubelet did
	}
	w.k.options.Observer.PodStarted(pod.CreationTimestamp.Time, w.began, time.Now())
}

// lookAgain makes the worker look at its pod at that time, or earlier.
func (w *worker) lookAgain(at time.Time) {
	if w.due.IsZero() || at.Before(w.due) {
		w.due = at
	}
}

// sync brings a pod closer to its spec, as far as that goes without waiting for anything.
func (w *worker) sync(ctx context.Context, pod *corev1.Pod, forced bool) {
	created := 0
	for {
		o, err := observe(ctx, w.k, w.uid)
		if err != nil {
			w.failed(ctx, pod, "error determining status: %v", err)
			return
		}
		if !forced && o.equal(w.seen) {
			return
		}
		forced = true
		w.due = time.Time{}
		w.probes.follow(ctx, pod, o)
		w.publish(pod, o, provisional)
		if isTerminal(w.status.Phase) {
			w.stage = terminating
			return
		}
		if need, _, _, _ := sandboxNeeded(pod, o); need {
			if created++; created > 1 {
				w.lookAgain(time.Now().Add(plegPeriod)) // the one just made is no good
				break
			}
		}
		progress := w.execute(ctx, pod, o)
		if ctx.Err() != nil {
			return // whoever interrupted has something newer to look at
		}
		if !progress {
			break
		}
	}
	w.publish(pod, w.seen, settled)
	if at, limited := deadlineAt(pod, w.status.StartTime); limited {
		w.lookAgain(at)
	}
}

// failed notes that a pod could not be looked after, and tries again later.
func (w *worker) failed(ctx context.Context, pod *corev1.Pod, format string, err error) {
	if ctx.Err() != nil {
		return
	}
	w.retry = true
	w.lookAgain(time.Now().Add(retryPeriod))
	if errors.Is(err, cri.ErrUnavailable) {
		return // the node says so; the pod is no worse off
	}
	w.k.log.Warn("looking after a pod failed", "pod", pod.Namespace+"/"+pod.Name, "error", err)
	w.k.podEvent(pod, corev1.EventTypeWarning, "FailedSync", format, err)
}

// publish generates the pod's status and hands it to the sender.
func (w *worker) publish(pod *corev1.Pod, o observation, u urgency) {
	w.seen = o
	status := generateStatus(portrait{
		pod: pod, previous: w.status, observed: o, waiting: w.waiting, probes: w.probes.result,
		evicted: w.news.evicted(),
		ending:  w.stage >= terminating, over: w.stage == over, hostIPs: w.k.hostIPs, runtime: w.k.runtimeName, now: time.Now(),
	})
	if status.Reason == reasonDeadlineExceeded && w.status.Reason != reasonDeadlineExceeded {
		w.k.podEvent(pod, corev1.EventTypeNormal, reasonDeadlineExceeded, messageDeadlineExceeded)
	}
	w.status = status
	if w.stage == over {
		w.status = finalStatus(pod, status)
		return // the caller finishes
	}
	w.k.sender.set(pod, status, u)
}

// terminate ends all that runs, and makes sure of it.
func (w *worker) terminate(ctx context.Context, pod *corev1.Pod, gone bool) {
	o, err := observe(ctx, w.k, w.uid)
	if err != nil {
		w.failed(ctx, pod, "error determining status: %v", err)
		return
	}
	idle := len(o.running()) == 0 && o.activeSandbox() == nil
	if idle && (w.rejected || isTerminal(pod.Status.Phase)) && w.release(ctx) == nil {
		w.stage = over // how it ended has been said already
		return
	}
	if !gone && !w.rejected {
		w.publish(pod, o, provisional)
	}
	w.probes.hush()
	if err := w.killPod(ctx, pod, o, w.grace(pod)); err != nil {
		if ctx.Err() == nil {
			w.k.podEvent(pod, corev1.EventTypeWarning, "FailedKillPod", "error killing pod: %v", err)
			w.k.log.Warn("killing a pod failed", "pod", pod.Namespace+"/"+pod.Name, "error", err)
			w.lookAgain(time.Now().Add(retryPeriod))
		}
		return
	}
	o, err = observe(ctx, w.k, w.uid)
	if err != nil || len(o.running()) > 0 {
		w.lookAgain(time.Now().Add(retryPeriod))
		return
	}
	w.probes.stop()
	if err := w.release(ctx); err != nil {
		if ctx.Err() == nil {
			w.k.log.Warn("releasing what a pod had failed", "pod", pod.Namespace+"/"+pod.Name, "error", err)
			w.lookAgain(time.Now().Add(plegPeriod))
		}
		return
	}
	w.stage = over
	if !w.rejected {
		w.publish(pod, o, settled)
	}
}

// bury removes what the runtime still has of a pod that is gone.
func (w *worker) bury(ctx context.Context) (done bool) {
	o, err := observe(ctx, w.k, w.uid)
	for _, s := range o.sandboxes {
		if err == nil {
			err = w.k.runtime.RemovePodSandbox(ctx, s.ID)
		}
	}
	for _, c := range o.containers {
		if err == nil {
			err = w.k.runtime.RemoveContainer(ctx, c.ID)
		}
	}
	if err == nil {
		err = w.release(ctx)
	}
	if err == nil {
		err = w.k.options.Host.Memory.Forget(w.uid)
	}
	if err == nil && w.k.options.Host.LogDir != "" {
		err = os.RemoveAll(podLogDir(w.k.options.Host.LogDir, w.news.newest()))
	}
	if err != nil {
		w.k.log.Warn("removing what is left of a pod failed", "uid", w.uid, "error", err)
		w.due = time.Now().Add(retryPeriod)
		return false
	}
	w.k.sender.drop(w.uid)
	return true
}

// gracePeriod is how many seconds the pod's containers get to end by themselves.
func gracePeriod(pod *corev1.Pod) int64 {
	grace := int64(0)
	switch {
	case pod.DeletionGracePeriodSeconds != nil:
		grace = *pod.DeletionGracePeriodSeconds
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		grace = *pod.Spec.TerminationGracePeriodSeconds
	}
	return max(grace, 1)
}
