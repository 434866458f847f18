package cronjob

import (
	"cmp"
	"context"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
)

// finished returns how a job has ended, or "" if it has not.
func finished(job *batchv1.Job) batchv1.JobConditionType {
	for _, c := range job.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return c.Type
		}
	}
	return ""
}

// active reports whether the status lists a job as active.
func (r *run) active(job *batchv1.Job) bool {
	return slices.ContainsFunc(r.cj.Status.Active, func(ref corev1.ObjectReference) bool { return ref.UID == job.UID })
}

// inactive removes a job from the active ones.
func (r *run) inactive(uid types.UID) {
	before := len(r.cj.Status.Active)
	r.cj.Status.Active = slices.DeleteFunc(r.cj.Status.Active, func(ref corev1.ObjectReference) bool { return ref.UID == uid })
	r.changed = r.changed || len(r.cj.Status.Active) < before
}

// observe brings the status up to date with the jobs in the cache.
func (r *run) observe(ctx context.Context) error {
	for _, job := range r.jobs {
		condition := finished(job)
		if condition == "" {
			if err := r.expect(ctx, job); err != nil {
				return err
			}
			continue
		}
		if r.active(job) {
			r.inactive(job.UID)
			r.event(corev1.EventTypeNormal, "SawCompletedJob", "Saw completed job: %s, condition: %v", job.Name, condition)
		}
		if condition == batchv1.JobComplete {
			r.succeeded(job.Status.CompletionTime)
		}
	}
	return nil
}

// succeeded notes the time of a success, if it is the last.
func (r *run) succeeded(at *metav1.Time) {
	if at != nil && (r.cj.Status.LastSuccessfulTime == nil || at.After(r.cj.Status.LastSuccessfulTime.Time)) {
		r.cj.Status.LastSuccessfulTime = at.DeepCopy()
		r.changed = true
	}
}

// expect reports a job that is running and should not be. One that only the cached status does not list is fine: the
// status is then the server's.
func (r *run) expect(ctx context.Context, job *batchv1.Job) error {
	if r.active(job) {
		return nil
	}
	fresh, err := client.As[*batchv1.CronJob](r.client.Get(ctx, r.target("")))
	if err != nil {
		return err
	}
	stale := r.cj
	if r.cj = fresh.DeepCopy(); r.active(job) {
		return nil
	}
	r.cj = stale
	r.event(corev1.EventTypeWarning, "UnexpectedJob", "Saw a job that the controller did not create or forgot: %s", job.Name)
	return nil
}

// dropMissing removes active jobs that do not exist any more. Those that only the cache does not show stay.
func (r *run) dropMissing(ctx context.Context) error {
	for _, ref := range slices.Clone(r.cj.Status.Active) {
		if slices.ContainsFunc(r.jobs, func(job *batchv1.Job) bool { return job.UID == ref.UID }) {
			continue
		}
		_, err := r.client.Get(ctx, jobKind().Target(ref.Namespace, ref.Name))
		if apierrors.IsNotFound(err) {
			r.event(corev1.EventTypeNormal, "MissingJob", "Active job went missing: %v", ref.Name)
			r.inactive(ref.UID)
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// trimHistory deletes the oldest finished jobs beyond the limits.
func (r *run) trimHistory(ctx context.Context) {
	r.trim(ctx, batchv1.JobComplete, r.cj.Spec.SuccessfulJobsHistoryLimit)
	r.trim(ctx, batchv1.JobFailed, r.cj.Spec.FailedJobsHistoryLimit)
}

func (r *run) trim(ctx context.Context, condition batchv1.JobConditionType, limit *int32) {
	if limit == nil {
		return
	}
	done := slices.DeleteFunc(slices.Clone(r.jobs), func(job *batchv1.Job) bool { return finished(job) != condition })
	for _, job := range oldest(done, len(done)-int(*limit)) {
		r.remove(ctx, job)
	}
}

// oldest returns the first n jobs to start; those that never did come last.
func oldest(jobs []*batchv1.Job, n int) []*batchv1.Job {
	slices.SortFunc(jobs, func(a, b *batchv1.Job) int {
		x, y := a.Status.StartTime, b.Status.StartTime
		switch {
		case x == nil && y != nil:
			return 1
		case x != nil && y == nil:
			return -1
		case x.Equal(y):
			return strings.Compare(a.Name, b.Name)
		}
		return cmp.Compare(x.UnixNano(), y.UnixNano())
	})
	return jobs[:max(n, 0)]
}

// remove deletes a job, with its pods, and reports whether that succeeded.
func (r *run) remove(ctx context.Context, job *batchv1.Job) bool {
	background := metav1.DeletePropagationBackground
	r.recent.deleting(job.UID) // first, since the deletion may be seen before the call returns
	err := r.client.Delete(ctx, jobKind().Target(job.Namespace, job.Name), metav1.DeleteOptions{PropagationPolicy: &background})
	if err != nil {
		r.recent.gone(job.UID)
		r.event(corev1.EventTypeWarning, "FailedDelete", "Deleted job: %v", err)
		return false
	}
	r.inactive(job.UID)
	r.event(corev1.EventTypeNormal, "SuccessfulDelete", "Deleted job %v", job.Name)
	return true
}
