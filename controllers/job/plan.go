package job

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/controllers/internal/pods"
	"github.com/keelson-dev/keelson/controllers/internal/rank"
)

// plan is what to do about a job's pods: delete some, or create some, or neither for now.
type plan struct {
	remove []*corev1.Pod
	create []int // the indexes of the new pods, noIndex for those of jobs that are not indexed
	// again is when to look next, if only time has to pass.
	again time.Duration
}

// plan decides for a job that goes on, up to burst pods.
func (l *look) plan(burst int) plan {
	if suspended(l.job) {
		return plan{remove: l.surplus(len(l.active))}
	}
	want := l.wanted()
	if remove := l.surplus(max(0, len(l.active)-want)); len(remove) > 0 {
		// Never both at once: what is missing is created when the deletions have been seen.
		return plan{remove: remove[:min(len(remove), burst)]}
	}
	missing := want - len(l.active)
	if replacesFailedOnly(l.job) {
		missing -= int(l.terminating)
	}
	if missing <= 0 {
		return plan{}
	}
	perIndex := l.job.Spec.BackoffLimitPerIndex != nil
	if wait := l.record.wait(l.now); wait > 0 && !perIndex {
		return plan{again: max(wait, batchPeriod)}
	}
	missing = min(missing, burst)
	if !indexed(l.job) {
		return plan{create: slices.Repeat([]int{noIndex}, missing)}
	}
	next := l.pending(missing)
	if !perIndex {
		return plan{create: next}
	}
	return l.planIndexes(next)
}

// wanted is how many pods should run.
func (l *look) wanted() int {
	most := int(value(l.job.Spec.Parallelism))
	if l.job.Spec.Completions != nil {
		return max(0, min(l.completions()-int(l.succeeded), most))
	}
	if l.succeeded > 0 {
		return len(l.active) // the others know from it that there is nothing left to do
	}
	return most
}

// planIndexes creates the pods of those indexes whose back-off has passed.
func (l *look) planIndexes(next []int) plan {
	var p plan
	for _, i := range next {
		switch wait := waitForIndex(l.waiting[i], l.now); {
		case wait == 0:
			p.create = append(p.create, i)
		case p.again == 0 || wait < p.again:
			p.again = wait
		}
	}
	if len(p.create) > 0 || p.again == 0 {
		p.again = 0 // the new pods bring the job back
		return p
	}
	p.again = max(p.again, batchPeriod)
	return p
}

// pending returns the first n indexes that need a pod.
func (l *look) pending(n int) []int {
	taken := l.done.with(indexesOf(l.active))
	if replacesFailedOnly(l.job) {
		taken = taken.with(indexesOf(slices.DeleteFunc(slices.Clone(l.pods), func(pod *corev1.Pod) bool { return !pods.Terminating(pod) })))
	}
	if l.lost != nil {
		taken = taken.with(*l.lost)
	}
	return taken.firstOutside(n, l.completions())
}

// surplus returns at least n active pods to delete, those that are worth least first. In indexed jobs these are, first,
// pods without a valid index and all but the best of those that share one.
func (l *look) surplus(n int) []*corev1.Pod {
	var remove []*corev1.Pod
	left := slices.Clone(l.active)
	if indexed(l.job) {
		remove, left = l.duplicates(left)
	}
	if n > len(remove) {
		slices.SortStableFunc(left, compare)
		remove = append(remove, left[:n-len(remove)]...)
	}
	return remove
}

// duplicates parts the active pods into those that have no valid index or share one with a better pod, and the others.
func (l *look) duplicates(active []*corev1.Pod) (remove, left []*corev1.Pod) {
	slices.SortStableFunc(active, func(a, b *corev1.Pod) int { return cmp.Or(cmp.Compare(indexOf(a), indexOf(b)), compare(a, b)) })
	for i, pod := range active {
		index := indexOf(pod)
		if !l.valid(index) || i+1 < len(active) && indexOf(active[i+1]) == index {
			remove = append(remove, pod)
		} else {
			left = append(left, pod)
		}
	}
	return remove, left
}

// compare orders active pods by what they are worth: those without a node first, then those that are pending or of unknown
// phase, those that are not ready, those that became ready later, restarted more often or were created later.
func compare(a, b *corev1.Pod) int {
	return cmp.Or(
		rank.TrueFirst(a.Spec.NodeName == "", b.Spec.NodeName == ""),
		cmp.Compare(rank.Phase(a), rank.Phase(b)),
		rank.TrueFirst(!pods.Ready(a), !pods.Ready(b)),
		laterFirst(pods.ReadySince(a), pods.ReadySince(b)),
		rank.CompareRestarts(b, a),
		laterFirst(a.CreationTimestamp.Time, b.CreationTimestamp.Time),
	)
}

// laterFirst compares two times: the zero time comes first, then the later one.
func laterFirst(a, b time.Time) int {
	if a.IsZero() || b.IsZero() {
		return rank.TrueFirst(a.IsZero(), b.IsZero())
	}
	return b.Compare(a)
}
