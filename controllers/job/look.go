package job

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/controllers/internal/pods"
)

func indexed(job *batchv1.Job) bool {
	return job.Spec.CompletionMode != nil && *job.Spec.CompletionMode == batchv1.IndexedCompletion
}

func suspended(job *batchv1.Job) bool { return job.Spec.Suspend != nil && *job.Spec.Suspend }

// replacesFailedOnly reports whether a pod is replaced only when it has ended, not when its deletion begins.
func replacesFailedOnly(job *batchv1.Job) bool {
	return job.Spec.PodReplacementPolicy != nil && *job.Spec.PodReplacementPolicy == batchv1.Failed
}

// value is what a pointer points to; defaults have set those of stored jobs.
func value(n *int32) int32 {
	if n == nil {
		return 0
	}
	return *n
}

// tracked reports whether a pod has the finalizer, and is not counted for good yet.
func tracked(pod *corev1.Pod) bool {
	return slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer)
}

// failed reports whether a pod counts as failed. One that is being deleted does, unless the job waits for its end:
// if its node is gone, it may never get so far.
func failed(pod *corev1.Pod, job *batchv1.Job) bool {
	if pod.Status.Phase == corev1.PodFailed {
		return true
	}
	return !replacesFailedOnly(job) && pod.DeletionTimestamp != nil && pod.Status.Phase != corev1.PodSucceeded
}

// look is what the controller knows about a job and its pods at one instant, and what follows from it.
type look struct {
	job    *batchv1.Job // a copy, whose status becomes the new one
	pods   []*corev1.Pod
	active []*corev1.Pod
	now    time.Time

	end    verdict
	record record // of failures, with those of this look
	// Pods that have succeeded and failed, with those of this look.
	succeeded, failed int32
	progress
	// waiting are the failed pods, by index, that stay until their replacement exists, which takes over their annotations.
	waiting map[int]*corev1.Pod
	// What the new status says of pods: they change with what is created and deleted.
	running, ready, terminating int32
	// changed means that the status differs from the stored one already.
	changed bool
}

// progress are the indexes of a job: those that had succeeded before, that have succeeded now and that have failed for
// good. The last are nil without a limit per index.
type progress struct {
	before, done indexes
	lost         *indexes
}

// newLook counts. The pods must be as the last writes left them.
func newLook(job *batchv1.Job, all []*corev1.Pod, had record, now time.Time) *look {
	l := &look{job: job, pods: all, now: now}
	if job.Status.UncountedTerminatedPods == nil {
		job.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	}
	for _, pod := range all {
		switch {
		case pods.Active(pod):
			l.active = append(l.active, pod)
			if pods.Ready(pod) {
				l.ready++
			}
		case pods.Terminating(pod):
			l.terminating++
		}
	}
	l.running = int32(len(l.active))
	uncounted := job.Status.UncountedTerminatedPods
	succeeded := l.fresh(uncounted.Succeeded, func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodSucceeded })
	lost := l.fresh(uncounted.Failed, func(pod *corev1.Pod) bool { return failed(pod, job) })
	l.succeeded = job.Status.Succeeded + int32(len(succeeded)+len(uncounted.Succeeded))
	l.failed = job.Status.Failed + int32(len(uncounted.Failed))
	for _, pod := range lost {
		if rule(job.Spec.PodFailurePolicy, pod).counts() {
			l.failed++
		}
	}
	l.record = had.after(succeeded, lost)
	if job.Status.StartTime == nil && !suspended(job) {
		start := stamp(now)
		job.Status.StartTime = &start
	}
	l.judge()
	return l
}

// fresh returns the pods that are not counted yet, neither for good nor among the UIDs, and that match.
func (l *look) fresh(uncounted []types.UID, match func(*corev1.Pod) bool) []*corev1.Pod {
	known := setOf(uncounted)
	var out []*corev1.Pod
	for _, pod := range l.pods {
		if tracked(pod) && !known[pod.UID] && (!indexed(l.job) || l.valid(indexOf(pod))) && match(pod) {
			out = append(out, pod)
		}
	}
	return out
}

func setOf(uids []types.UID) map[types.UID]bool {
	set := make(map[types.UID]bool, len(uids))
	for _, uid := range uids {
		set[uid] = true
	}
	return set
}

// valid reports whether an index is one of the job.
func (l *look) valid(index int) bool { return index != noIndex && index < l.completions() }

func (l *look) completions() int { return int(value(l.job.Spec.Completions)) }

// judge decides whether the job ends. What was announced before stays; then failures come before success.
func (l *look) judge() {
	l.end = announced(l.job.Status.Conditions)
	if l.end.kind == "" {
		l.end = l.failure()
	}
	if !indexed(l.job) {
		return
	}
	l.before = parseIndexes(l.job.Status.CompletedIndexes, l.completions())
	l.done = l.before.with(l.trackedIndexes(func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodSucceeded }))
	l.succeeded = int32(l.done.count())
	if l.job.Spec.BackoffLimitPerIndex != nil {
		l.judgeIndexes()
	}
	if l.end.kind == "" {
		if why := succeeds(l.job.Spec.SuccessPolicy, l.done, l.completions()); why != "" {
			l.end = verdict{batchv1.JobSuccessCriteriaMet, batchv1.JobReasonSuccessPolicy, why}
		}
	}
}

// failure decides whether the job fails by its policy, its limit or its deadline.
func (l *look) failure() verdict {
	if l.job.Spec.PodFailurePolicy != nil {
		for _, pod := range l.pods {
			if !failed(pod, l.job) {
				continue
			}
			if why := rule(l.job.Spec.PodFailurePolicy, pod).message; why != "" {
				return failure(batchv1.JobReasonPodFailurePolicy, why)
			}
		}
	}
	if l.failed > value(l.job.Spec.BackoffLimit) || l.restartsTooOften() {
		return failure(batchv1.JobReasonBackoffLimitExceeded, "Job has reached the specified backoff limit")
	}
	if left, ok := l.untilDeadline(); ok && left <= 0 {
		return failure(batchv1.JobReasonDeadlineExceeded, "Job was active longer than specified deadline")
	}
	return verdict{}
}

// untilDeadline returns how long the job may still run, and false if there is no limit.
func (l *look) untilDeadline() (time.Duration, bool) {
	limit := l.job.Spec.ActiveDeadlineSeconds
	if limit == nil || suspended(l.job) {
		return 0, false
	}
	return time.Duration(*limit)*time.Second - l.now.Sub(l.job.Status.StartTime.Time), true
}

// restartsTooOften applies the limit to containers that are restarted in place.
func (l *look) restartsTooOften() bool {
	if l.job.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyOnFailure {
		return false
	}
	var restarts int32
	for _, pod := range l.pods {
		if pod.Status.Phase != corev1.PodRunning && pod.Status.Phase != corev1.PodPending {
			continue
		}
		for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			restarts += s.RestartCount
		}
	}
	return restarts > 0 && restarts >= value(l.job.Spec.BackoffLimit)
}

// trackedIndexes returns the valid indexes of the tracked pods that match.
func (l *look) trackedIndexes(match func(*corev1.Pod) bool) indexes {
	var list []int
	for _, pod := range l.pods {
		if i := indexOf(pod); l.valid(i) && tracked(pod) && match(pod) {
			list = append(list, i)
		}
	}
	return singles(list)
}

// judgeIndexes decides which indexes have failed for good, and whether the job fails by them.
func (l *look) judgeIndexes() {
	lost := parseIndexes(deref(l.job.Status.FailedIndexes), l.completions()).with(l.trackedIndexes(l.failsIndex))
	l.lost = &lost
	if n := lost.count(); l.end.kind == "" && n > 0 {
		most := l.job.Spec.MaxFailedIndexes
		switch {
		case most != nil && n > int(*most):
			l.end = failure(batchv1.JobReasonMaxFailedIndexesExceeded, "Job has exceeded the specified maximal number of failed indexes")
		case n+l.done.count() >= l.completions():
			l.end = failure(batchv1.JobReasonFailedIndexes, "Job has failed indexes")
		}
	}
	l.waiting = map[int]*corev1.Pod{}
	running := indexesOf(l.active)
	for _, pod := range l.fresh(nil, func(pod *corev1.Pod) bool { return failed(pod, l.job) }) {
		i := indexOf(pod)
		if l.done.has(i) || lost.has(i) || running.has(i) {
			continue
		}
		if last := l.waiting[i]; last == nil || absolute(last) <= absolute(pod) && !finishedAt(pod).Before(finishedAt(last)) {
			l.waiting[i] = pod
		}
	}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// absolute is how often an index had failed before a pod, whatever the policy says of it.
func absolute(pod *corev1.Pod) int32 {
	counted, ignored := failures(pod)
	return counted + ignored
}

// failsIndex reports whether the index of a pod fails for good with it.
func (l *look) failsIndex(pod *corev1.Pod) bool {
	if !failed(pod, l.job) {
		return false
	}
	r := rule(l.job.Spec.PodFailurePolicy, pod)
	counted, _ := failures(pod)
	return r.action == batchv1.PodFailurePolicyActionFailIndex || r.counts() && counted >= value(l.job.Spec.BackoffLimitPerIndex)
}
