package ttlafterfinished

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/informer"
)

// Client is what the controller needs of the server: to read jobs past the cache, and to delete them.
type Client interface {
	client.Getter
	client.Deleter
}

// Controller is the ttl-after-finished-controller. Make one with New.
type Controller struct {
	jobs   *informer.Informer[*batchv1.Job]
	client Client
}

var _ controllers.Controller = (*Controller)(nil)

// New makes the controller.
func New(jobs *informer.Informer[*batchv1.Job], c Client) *Controller {
	return &Controller{jobs: jobs, client: c}
}

// Name is "ttl-after-finished-controller".
func (*Controller) Name() string { return "ttl-after-finished-controller" }

// Watch implements controllers.Controller.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced {
	look := func(job *batchv1.Job) {
		if end(job) != nil {
			q.Add(controllers.KeyOf(job))
		}
	}
	c.jobs.AddHandler(informer.Handler[*batchv1.Job]{Added: look, Updated: func(_, job *batchv1.Job) { look(job) }})
	return []controllers.Synced{c.jobs}
}

// Reconcile deletes one job whose time has passed.
func (c *Controller) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	job, ok := c.jobs.Get(key.Namespace, key.Name)
	if !ok {
		return controllers.Result{}, nil
	}
	if wait, due, err := left(job, time.Now()); !due {
		return controllers.Result{RequeueAfter: wait}, err
	}
	target := client.Target{Resource: batchv1.SchemeGroupVersion.WithResource("jobs"), Namespace: key.Namespace, Name: key.Name}
	job, err := client.As[*batchv1.Job](c.client.Get(ctx, target))
	if apierrors.IsNotFound(err) {
		return controllers.Result{}, nil
	}
	if err != nil {
		return controllers.Result{}, err
	}
	if wait, due, err := left(job, time.Now()); !due {
		return controllers.Result{RequeueAfter: wait}, err
	}
	foreground := metav1.DeletePropagationForeground
	return controllers.Result{}, c.client.Delete(ctx, target, metav1.DeleteOptions{
		PropagationPolicy: &foreground, Preconditions: &metav1.Preconditions{UID: &job.UID},
	})
}

// end returns the condition that says that a job has ended, or nil if it has not, is to stay, or is being deleted already.
func end(job *batchv1.Job) *batchv1.JobCondition {
	if job.DeletionTimestamp != nil || job.Spec.TTLSecondsAfterFinished == nil {
		return nil
	}
	for i := range job.Status.Conditions {
		c := &job.Status.Conditions[i]
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

// left returns whether a job is due to be deleted, and if not, how much time is left; 0 means that it is not to be deleted.
func left(job *batchv1.Job, now time.Time) (wait time.Duration, due bool, err error) {
	c := end(job)
	if c == nil {
		return 0, false, nil
	}
	if c.LastTransitionTime.IsZero() {
		return 0, false, fmt.Errorf("unable to find the time when the Job %s/%s finished", job.Namespace, job.Name)
	}
	wait = c.LastTransitionTime.Add(time.Duration(*job.Spec.TTLSecondsAfterFinished) * time.Second).Sub(now)
	return wait, wait <= 0, nil
}
