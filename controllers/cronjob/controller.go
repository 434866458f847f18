package cronjob

import (
	"context"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/ownership"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/internal/cronschedule"
)

// Sources is what the controller reads.
type Sources struct {
	CronJobs *informer.Informer[*batchv1.CronJob]
	Jobs     *informer.Informer[*batchv1.Job]
}

// Client is what the controller needs of the server: to read CronJobs and jobs past the cache, to create and delete jobs,
// and to update the status of CronJobs.
//
//nolint:interfacebloat // composed of the narrow ones that it needs
type Client interface {
	client.Getter
	client.Creator
	client.Updater
	client.Deleter
}

// Controller is the cronjob-controller. Make one with New.
type Controller struct {
	in       Sources
	client   Client
	recorder events.Recorder
	recent   *recent
}

var _ controllers.Controller = (*Controller)(nil)

// New makes the controller. It adds an index to the informer of jobs, which therefore must not be running yet.
func New(in Sources, c Client, r events.Recorder) *Controller {
	ownership.AddIndex(in.Jobs)
	return &Controller{in: in, client: c, recorder: r, recent: newRecent()}
}

// Name is "cronjob-controller".
func (*Controller) Name() string { return "cronjob-controller" }

func kind() ownership.Kind {
	return ownership.Kind{GroupVersionKind: batchv1.SchemeGroupVersion.WithKind("CronJob"), Resource: "cronjobs"}
}

func jobKind() ownership.Kind {
	return ownership.Kind{GroupVersionKind: batchv1.SchemeGroupVersion.WithKind("Job"), Resource: "jobs"}
}

// Watch implements controllers.Controller.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced {
	add := func(cj *batchv1.CronJob) { q.Add(controllers.KeyOf(cj)) }
	c.in.CronJobs.AddHandler(informer.Handler[*batchv1.CronJob]{
		Added:   add,
		Deleted: add,
		Updated: func(old, cj *batchv1.CronJob) {
			if old.Spec.Schedule == cj.Spec.Schedule && ptr.Equal(old.Spec.TimeZone, cj.Spec.TimeZone) {
				add(cj)
				return
			}
			schedule, err := cronschedule.Parse(scheduleText(cj))
			if err != nil {
				c.event(cj, corev1.EventTypeWarning, "UnParseableCronJobSchedule", "unparseable schedule for cronjob: %s", cj.Spec.Schedule)
				return
			}
			// Whatever is still due by the old schedule is not due any more.
			q.AddAfter(controllers.KeyOf(cj), untilNext(cj, schedule, time.Now()))
		},
	})
	owner := func(job *batchv1.Job) {
		if cj, ok := ownership.Resolve(c.in.CronJobs, "CronJob", job.Namespace, metav1.GetControllerOfNoCopy(job)); ok {
			add(cj)
		}
	}
	c.in.Jobs.AddHandler(informer.Handler[*batchv1.Job]{
		Added: owner,
		Deleted: func(job *batchv1.Job) {
			c.recent.gone(job.UID)
			owner(job)
		},
		Updated: func(old, job *batchv1.Job) {
			if !ownership.SameController(old, job) {
				owner(old)
			}
			owner(job)
		},
	})
	return []controllers.Synced{c.in.Jobs, c.in.CronJobs}
}

func (c *Controller) event(cj *batchv1.CronJob, kindOf, reason, format string, args ...any) {
	c.recorder.Record(events.Event{
		Regarding: events.About(kind().GroupVersionKind, cj),
		Type:      kindOf, Reason: reason, Message: fmt.Sprintf(format, args...),
	})
}

// Reconcile implements controllers.Controller.
func (c *Controller) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	cj, ok := c.in.CronJobs.Get(key.Namespace, key.Name)
	if !ok {
		c.recent.forget(key)
		return controllers.Result{}, nil
	}
	if c.recent.outdated(cj) {
		fresh, err := client.As[*batchv1.CronJob](c.client.Get(ctx, kind().Target(key.Namespace, key.Name)))
		if apierrors.IsNotFound(err) {
			return controllers.Result{}, nil
		}
		if err != nil {
			return controllers.Result{}, err
		}
		cj = fresh
	}
	jobs := slices.DeleteFunc(slices.Clone(ownership.ByOwner(c.in.Jobs, "CronJob", cj)), c.recent.going)
	r := &run{Controller: c, cj: cj.DeepCopy(), jobs: jobs, now: time.Now()}
	r.trimHistory(ctx)
	next, err := r.sync(ctx)
	if !r.changed {
		return controllers.Result{RequeueAfter: next}, err
	}
	written, failed := client.As[*batchv1.CronJob](c.client.Update(ctx, r.target("status"), r.cj, metav1.UpdateOptions{}))
	if failed != nil {
		return controllers.Result{}, fmt.Errorf("update the status of CronJob %s: %w", key, failed)
	}
	c.recent.wrote(written)
	return controllers.Result{RequeueAfter: next}, err
}

// run is one reconciliation.
type run struct {
	*Controller
	cj      *batchv1.CronJob // our copy
	jobs    []*batchv1.Job   // its jobs in the cache
	now     time.Time
	changed bool // whether the status is to be written
}

func (r *run) event(kindOf, reason, format string, args ...any) {
	r.Controller.event(r.cj, kindOf, reason, format, args...)
}

// target addresses the CronJob.
func (r *run) target(subresource string) client.Target {
	t := kind().Target(r.cj.Namespace, r.cj.Name)
	t.Subresource = subresource
	return t
}

// sync brings the status up to date and starts what is due. It returns when to look again; 0 means when something changes.
func (r *run) sync(ctx context.Context) (time.Duration, error) {
	if err := r.observe(ctx); err != nil {
		return 0, err
	}
	if err := r.dropMissing(ctx); err != nil {
		return 0, err
	}
	if r.cj.DeletionTimestamp != nil {
		return 0, nil
	}
	schedule, ok := r.parse()
	if !ok {
		return 0, nil
	}
	due, err := startsOf(r.cj, schedule, r.now, true)
	if err != nil {
		r.event(corev1.EventTypeWarning, "InvalidSchedule", "invalid schedule: %s : %s", r.cj.Spec.Schedule, err)
		return 0, nil
	}
	if !due.last.IsZero() {
		if due.missed > many {
			r.event(corev1.EventTypeWarning, "TooManyMissedTimes",
				"too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew")
		}
		if err := r.start(ctx, due.last); err != nil {
			return 0, err
		}
	}
	return untilNext(r.cj, schedule, r.now), nil
}
