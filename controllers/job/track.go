package job

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/internal/batch"
)

// track writes the status and takes the finalizer from pods that have ended. The status that lists them is stored first,
// and the one that counts them last, together with the end of the job.
func (c *Controller) track(ctx context.Context, l *look) error {
	changed := l.describe() || l.changed
	t := l.tally(c.options.Uncounted)
	t.changed = t.changed || changed
	l.announce(t)
	if t.changed {
		if err := c.updateStatus(ctx, l, t); err != nil {
			return fmt.Errorf("adding uncounted pods to status: %w", err)
		}
		c.records.set(controllers.KeyOf(l.job), l.record)
	}
	failure := c.releaseAll(ctx, l, t)
	t.settle()
	if failure != nil {
		if t.changed { // what was achieved
			if err := c.updateStatus(ctx, l, t); err != nil {
				return fmt.Errorf("removing uncounted pods from status: %w", err)
			}
		}
		return failure
	}
	ended := l.finish(t)
	if t.changed {
		if err := c.updateStatus(ctx, l, t); err != nil {
			return fmt.Errorf("removing uncounted pods from status: %w", err)
		}
	}
	if ended {
		c.recordEnd(l)
	}
	return nil
}

// describe updates what the status says of active pods, and reports whether that changed.
func (l *look) describe() bool {
	s := &l.job.Status
	changed := s.Active != l.running || s.Ready == nil || *s.Ready != l.ready || s.Terminating == nil || *s.Terminating != l.terminating
	ready, terminating := l.ready, l.terminating
	s.Active, s.Ready, s.Terminating = l.running, &ready, &terminating
	return changed
}

// releaseAll takes the finalizer from pods, and notes which lost it.
func (c *Controller) releaseAll(ctx context.Context, l *look, t *tally) error {
	errs := batch.InParallel(len(t.release), c.options.Parallel, func(i int) error {
		return ignoreMissing(c.release(ctx, l.job, t.release[i]))
	})
	for i, err := range errs {
		if err == nil {
			delete(t.holding, t.release[i].UID)
		}
	}
	return first(errs)
}

// updateStatus stores the status; the job then is what the server returns.
func (c *Controller) updateStatus(ctx context.Context, l *look, t *tally) error {
	target := kind().Target(l.job.Namespace, l.job.Name)
	target.Subresource = "status"
	got, err := c.client.Update(ctx, target, l.job, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	stored, ok := got.(*batchv1.Job)
	if !ok {
		return fmt.Errorf("server answered with a %T", got)
	}
	c.written.Wrote(stored, stored.UID)
	l.job = stored.DeepCopy()
	t.status, t.changed = &l.job.Status, false
	return nil
}

// recordEnd tells of the end of a job.
func (c *Controller) recordEnd(l *look) {
	if l.end.kind == batchv1.JobFailed {
		c.record(l.job, corev1.EventTypeWarning, l.end.reason, l.end.message)
		return
	}
	if l.job.Spec.Completions != nil && l.job.Status.Succeeded > *l.job.Spec.Completions {
		c.record(l.job, corev1.EventTypeWarning, "TooManySucceededPods", "Too many succeeded pods running after completion count reached")
	}
	c.record(l.job, corev1.EventTypeNormal, "Completed", "Job completed")
}
