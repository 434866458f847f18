package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/internal/batch"
	"github.com/keelson-dev/keelson/controllers/internal/pods"
	"github.com/keelson-dev/keelson/controllers/ownership"
)

// act changes the pods of a job, then its status. wait is how much longer to wait for the cache to show what was created
// and deleted before.
func (c *Controller) act(ctx context.Context, l *look, wait time.Duration) (controllers.Result, error) {
	var failure error
	again := wait
	if l.end.kind != "" {
		var all bool
		if all, failure = c.stop(ctx, l); !all || wait > 0 {
			l.end = verdict{} // not yet: there may be pods that were not counted
		}
	} else {
		managed := wait == 0 && l.job.DeletionTimestamp == nil
		if managed {
			var later time.Duration
			later, failure = c.manage(ctx, l)
			again = sooner(again, later)
		}
		switch {
		case l.complete():
			l.end = verdict{batchv1.JobSuccessCriteriaMet, batchv1.JobReasonCompletionsReached, "Reached expected number of succeeded pods"}
		case managed:
			if reason, message := setSuspended(l.job, l.now); reason != "" {
				c.record(l.job, corev1.EventTypeNormal, reason, message)
				l.changed = true
			}
		}
		if left, ok := l.untilDeadline(); ok {
			again = sooner(again, max(left, 1))
		}
	}
	if err := c.track(ctx, l); err != nil {
		return controllers.Result{}, fmt.Errorf("tracking status: %w", err)
	}
	if failure != nil {
		return controllers.Result{}, failure
	}
	return controllers.Result{RequeueAfter: again}, nil
}

// sooner returns the shorter of two delays, of which 0 means none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return cmp.Or(a, b)
	}
	return min(a, b)
}

// complete reports whether enough pods have succeeded and none is left.
func (l *look) complete() bool {
	if l.running > 0 {
		return false
	}
	if l.job.Spec.Completions == nil {
		return l.succeeded > 0
	}
	return int(l.succeeded) >= l.completions()
}

// stop deletes the active pods of a job that ends, and reports whether all were. They keep their finalizers until they are
// counted.
func (c *Controller) stop(ctx context.Context, l *look) (bool, error) {
	err := c.each(l, l.active, func(pod *corev1.Pod) error { return ignoreMissing(c.delete(ctx, l.job, pod.Name)) })
	return l.running == 0, err
}

// each calls f for active pods that it deletes, and counts those that it deleted.
func (c *Controller) each(l *look, list []*corev1.Pod, f func(*corev1.Pod) error) error {
	errs := batch.InParallel(len(list), c.options.Parallel, func(i int) error { return f(list[i]) })
	for i, err := range errs {
		if err != nil {
			continue
		}
		l.running--
		l.terminating++
		if pods.Ready(list[i]) {
			l.ready--
		}
	}
	return first(errs)
}

func first(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// manage creates and deletes pods of a job that goes on. It returns when to look again, if only time has to pass.
func (c *Controller) manage(ctx context.Context, l *look) (time.Duration, error) {
	p := l.plan(c.options.Burst)
	switch {
	case len(p.remove) > 0:
		return 0, c.remove(ctx, l, p.remove)
	case len(p.create) > 0:
		if alive, err := ownership.Alive(ctx, c.client, kind(), l.job); !alive {
			return 0, err
		}
		return 0, c.create(ctx, l, p.create)
	}
	return p.again, nil
}

// remove deletes active pods that are not to be counted: their finalizer goes first.
func (c *Controller) remove(ctx context.Context, l *look, list []*corev1.Pod) error {
	key, names := controllers.KeyOf(l.job), make([]string, len(list))
	for i, pod := range list {
		names[i] = pod.Name
	}
	c.expected.Deletions(key, names)
	return c.each(l, list, func(pod *corev1.Pod) error {
		err := c.release(ctx, l.job, pod)
		if err != nil {
			err = fmt.Errorf("removing completion finalizer: %w", err)
		} else {
			err = c.delete(ctx, l.job, pod.Name)
		}
		if err != nil {
			c.expected.Deleted(key, pod.Name) // the cache will show no deletion
		}
		return ignoreMissing(err)
	})
}

func ignoreMissing(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// release takes the finalizer from a pod.
func (c *Controller) release(ctx context.Context, job *batchv1.Job, pod *corev1.Pod) error {
	if !tracked(pod) {
		return nil
	}
	got, err := release(ctx, c.client, pod)
	if err != nil {
		return err
	}
	c.writtenPods.Wrote(got, job.UID)
	return nil
}

func release(ctx context.Context, api client.Patcher, pod *corev1.Pod) (metav1.Object, error) {
	patch := client.Patch{
		Type: types.StrategicMergePatchType,
		Data: []byte(`{"metadata":{"$deleteFromPrimitiveList/finalizers":["` + batchv1.JobTrackingFinalizer + `"]}}`),
	}
	got, err := api.Patch(ctx, pods.Kind().Target(pod.Namespace, pod.Name), patch, metav1.PatchOptions{})
	if err != nil {
		return nil, err
	}
	patched, ok := got.(metav1.Object)
	if !ok {
		return nil, fmt.Errorf("server answered with a %T", got)
	}
	return patched, nil
}

func (c *Controller) delete(ctx context.Context, job *batchv1.Job, name string) error {
	err := c.client.Delete(ctx, pods.Kind().Target(job.Namespace, name), metav1.DeleteOptions{})
	switch {
	case err == nil:
		c.record(job, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted pod: "+name)
		return nil
	case apierrors.IsNotFound(err):
		return err
	}
	c.record(job, corev1.EventTypeWarning, "FailedDelete", fmt.Sprintf("Error deleting: %v", err))
	return fmt.Errorf("unable to delete pods: %w", err)
}

// create makes a pod for each of the indexes, in batches that double as long as nothing fails: creations that cannot
// succeed, for instance for lack of quota, are tried once and not a hundred times.
func (c *Controller) create(ctx context.Context, l *look, list []int) error {
	key := controllers.KeyOf(l.job)
	c.expected.Creations(key, len(list))
	l.running += int32(len(list))
	tried, failed := batch.SlowStart(len(list), c.options.Parallel, func(i int) error { return c.createPod(ctx, l, list[i]) })
	for range len(list) - tried + len(failed) {
		c.expected.Created(key) // they will not appear
		l.running--
	}
	return first(failed)
}

func (c *Controller) createPod(ctx context.Context, l *look, index int) error {
	pod := l.pod(index)
	if len(pod.Labels) == 0 {
		return errors.New("unable to create pods, no labels")
	}
	created, err := c.client.Create(ctx, pods.Kind().Target(l.job.Namespace, ""), pod, metav1.CreateOptions{})
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil // nothing to do, and nothing to report
	}
	if err != nil {
		c.record(l.job, corev1.EventTypeWarning, "FailedCreate", fmt.Sprintf("Error creating: %v", err))
		return err
	}
	if named, ok := created.(metav1.Object); ok {
		c.record(l.job, corev1.EventTypeNormal, "SuccessfulCreate", "Created pod: "+named.GetName())
	}
	return nil
}
