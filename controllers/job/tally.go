package job

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// tally is the way of pods into the counters of a status: their UIDs are listed first, then they lose the finalizer, then
// they are counted.
type tally struct {
	status *batchv1.JobStatus
	// holding are the UIDs of pods that still have the finalizer.
	holding map[types.UID]bool
	// release are the pods to take the finalizer from, once the status is stored.
	release []*corev1.Pod
	// full means that there are more pods to count than one status lists.
	full bool
	// changed means that the status differs from the stored one.
	changed bool
}

// tally counts the pods that lost their finalizer, and lists those that have ended, up to most of them.
func (l *look) tally(most int) *tally {
	t := &tally{status: &l.job.Status, holding: map[types.UID]bool{}}
	if indexed(l.job) { // the indexes get into the status in order
		slices.SortStableFunc(l.pods, func(a, b *corev1.Pod) int { return indexOf(a) - indexOf(b) })
	}
	for _, pod := range l.pods {
		if tracked(pod) {
			t.holding[pod.UID] = true
		}
	}
	// What is listed already was decided on in an earlier look.
	succeeded, lost := setOf(t.status.UncountedTerminatedPods.Succeeded), setOf(t.status.UncountedTerminatedPods.Failed)
	t.settle()
	done := 0 // indexes that are new
	for _, pod := range l.pods {
		if !tracked(pod) || !l.releases(pod) {
			continue
		}
		t.release = append(t.release, pod)
		switch index := indexOf(pod); {
		case pod.Status.Phase == corev1.PodSucceeded && !lost[pod.UID]:
			if !indexed(l.job) {
				t.list(&t.status.UncountedTerminatedPods.Succeeded, pod.UID, succeeded)
			} else if l.valid(index) && !l.before.has(index) {
				done++
				t.changed = true
			}
		case (failed(pod, l.job) || l.end.fails()) && (!indexed(l.job) || l.valid(index)):
			// All pods that a failed job still had count as failed.
			if rule(l.job.Spec.PodFailurePolicy, pod).counts() {
				t.list(&t.status.UncountedTerminatedPods.Failed, pod.UID, lost)
			}
		}
		if done+len(t.status.UncountedTerminatedPods.Succeeded)+len(t.status.UncountedTerminatedPods.Failed) >= most {
			t.full = true
			break
		}
	}
	if indexed(l.job) {
		t.indexes(l.done, l.lost)
	}
	return t
}

func (t *tally) list(uids *[]types.UID, uid types.UID, listed map[types.UID]bool) {
	if !listed[uid] {
		*uids = append(*uids, uid)
		t.changed = true
	}
}

// releases reports whether a pod can lose its finalizer: if it has ended, or everything has. One that waits for its
// replacement cannot.
func (l *look) releases(pod *corev1.Pod) bool {
	if l.job.DeletionTimestamp != nil || l.end.kind != "" || pod.Status.Phase == corev1.PodSucceeded {
		return true
	}
	if !failed(pod, l.job) {
		return false
	}
	last := l.waiting[indexOf(pod)]
	return last == nil || last.UID != pod.UID
}

func (t *tally) indexes(done indexes, lost *indexes) {
	t.status.Succeeded = int32(done.count())
	if text := done.String(); text != t.status.CompletedIndexes {
		t.status.CompletedIndexes, t.changed = text, true
	}
	if lost == nil {
		t.changed = t.changed || t.status.FailedIndexes != nil
		t.status.FailedIndexes = nil
		return
	}
	if text := lost.String(); t.status.FailedIndexes == nil || *t.status.FailedIndexes != text {
		t.status.FailedIndexes, t.changed = &text, true
	}
}

// settle counts the listed pods that lost their finalizer.
func (t *tally) settle() {
	uncounted := t.status.UncountedTerminatedPods
	if uncounted == nil {
		return
	}
	move := func(uids *[]types.UID, counter *int32) {
		left := slices.DeleteFunc(slices.Clone(*uids), func(uid types.UID) bool { return !t.holding[uid] })
		if n := len(*uids) - len(left); n > 0 {
			*counter += int32(n)
			t.changed = true
			*uids = left
		}
	}
	move(&uncounted.Succeeded, &t.status.Succeeded)
	move(&uncounted.Failed, &t.status.Failed)
}

// announce adds the condition that the job is about to end, which is stored before the finalizers go: from then on the
// verdict stands.
func (l *look) announce(t *tally) {
	switch l.end.kind {
	case batchv1.JobFailureTarget:
		t.status.Conditions = append(t.status.Conditions, condition(l.end, l.now))
		t.changed = true
		l.end.kind = batchv1.JobFailed
	case batchv1.JobSuccessCriteriaMet:
		if c := find(t.status.Conditions, batchv1.JobSuccessCriteriaMet); c == nil || c.Status != corev1.ConditionTrue {
			t.status.Conditions = append(t.status.Conditions, condition(l.end, l.now))
			t.changed = true
		}
		l.end.kind = batchv1.JobComplete
	}
}

// finish ends the job, if nothing is left to count and no pod is terminating any more. It reports whether it did.
func (l *look) finish(t *tally) bool {
	uncounted := t.status.UncountedTerminatedPods
	if l.end.kind == "" || t.full || l.terminating > 0 ||
		len(uncounted.Succeeded)+len(uncounted.Failed) > 0 {
		return false
	}
	end := condition(l.end, l.now)
	setCondition(t.status, end)
	if l.end.kind == batchv1.JobComplete {
		t.status.CompletionTime = &end.LastTransitionTime
	}
	t.changed = true
	return true
}
