package job

import (
	"context"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/expectations"
	"github.com/keelson-dev/keelson/controllers/internal/pods"
	"github.com/keelson-dev/keelson/controllers/ownership"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
)

// batchPeriod is how long changes of pods and statuses are collected before a job is looked at.
const batchPeriod = time.Second

// Sources is what the controller reads.
type Sources struct {
	Jobs *informer.Informer[*batchv1.Job]
	Pods *informer.Informer[*corev1.Pod]
}

// Client is what the controller needs of the server: to create, delete and patch pods, to read jobs past the cache and to
// update their status.
//
//nolint:interfacebloat // composed of the narrow ones that it needs
type Client interface {
	client.Getter
	client.Creator
	client.Updater
	client.Patcher
	client.Deleter
}

// Options of a Controller. The zero value behaves as upstream.
type Options struct {
	// Burst is how many pods of a job are created or deleted before the cache has to show them, and Uncounted how many
	// ended pods a status lists before they are counted; 0 means 500.
	Burst, Uncounted int
	// Parallel is how many pods of a batch are created, deleted or patched concurrently; 0 means all of them. With 1 the
	// order of requests is always the same.
	Parallel int
}

// Controller is the job-controller. Make one with New.
type Controller struct {
	in       Sources
	client   Client
	recorder events.Recorder
	options  Options
	records  *records
	// What the caches do not show yet: pods created and deleted by the key of their job, and the last version written of
	// each job and pod.
	expected    *expectations.Dependents
	written     *expectations.Versions
	writtenPods *expectations.Versions
}

var _ interface {
	controllers.Controller
	controllers.Retrier
} = (*Controller)(nil)

// New makes the controller. It adds an index to the pods, so their informer must not be running yet.
func New(in Sources, c Client, r events.Recorder, o Options) *Controller {
	ownership.AddIndex(in.Pods)
	if o.Burst <= 0 {
		o.Burst = 500
	}
	if o.Uncounted <= 0 {
		o.Uncounted = 500
	}
	return &Controller{
		in: in, client: c, recorder: r, options: o, records: &records{jobs: map[controllers.Key]record{}},
		expected: expectations.NewDependents(), written: expectations.NewVersions(), writtenPods: expectations.NewVersions(),
	}
}

// Name is "job-controller".
func (c *Controller) Name() string { return "job-controller" }

// Retry is after a second at first.
func (c *Controller) Retry() controllers.Retry { return retry() }

func retry() controllers.Retry { return controllers.Retry{First: time.Second, Max: time.Minute} }

func kind() ownership.Kind {
	return ownership.Kind{GroupVersionKind: batchv1.SchemeGroupVersion.WithKind("Job"), Resource: "jobs"}
}

// external reports whether another controller manages a job.
func external(job *batchv1.Job) bool {
	return job.Spec.ManagedBy != nil && *job.Spec.ManagedBy != batchv1.JobControllerName
}

// Reconcile implements controllers.Controller.
func (c *Controller) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	job, ok := c.in.Jobs.Get(key.Namespace, key.Name)
	if !ok {
		c.forget(key)
		c.expected.Forget(key)
		return controllers.Result{}, nil
	}
	if external(job) {
		return controllers.Result{}, nil
	}
	if finished(job) {
		c.forget(key)
		return controllers.Result{}, nil
	}
	if c.written.Behind(job, job.UID) {
		return controllers.Result{}, nil // enqueued again when the cache has caught up
	}
	if mode := job.Spec.CompletionMode; mode != nil && *mode != batchv1.NonIndexedCompletion && *mode != batchv1.IndexedCompletion {
		c.record(job, corev1.EventTypeWarning, "UnknownCompletionMode", "Skipped Job sync because completion mode is unknown")
		return controllers.Result{}, nil
	}
	// This comes before the pods are listed: the list then includes what was waited for.
	wait := c.expected.Wait(key, time.Now())
	claimed, current, err := c.pods(ctx, job)
	if !current {
		return controllers.Result{}, err
	}
	l := newLook(job.DeepCopy(), claimed, c.records.get(key), time.Now())
	return c.act(ctx, l, wait)
}

func (c *Controller) forget(key controllers.Key) {
	c.records.forget(key)
	c.written.Forget(key)
}

// pods returns the pods of a job; it adopts and releases some. They are not current if the cache does not show the last
// writes to them yet, nor with an error.
func (c *Controller) pods(ctx context.Context, job *batchv1.Job) (claimed []*corev1.Pod, current bool, err error) {
	selector, err := metav1.LabelSelectorAsSelector(job.Spec.Selector)
	if err != nil {
		return nil, false, nil //nolint:nilerr // validation does not let this in
	}
	all := append(ownership.ByOwner(c.in.Pods, kind().Kind, job), ownership.Orphans(c.in.Pods, job.Namespace)...)
	for _, pod := range all {
		if c.writtenPods.Behind(pod, job.UID) {
			return nil, false, nil // enqueued again when the cache has caught up
		}
	}
	owner := ownership.Owner{
		Object: job, Kind: kind(), Selector: selector, Finalizers: []string{batchv1.JobTrackingFinalizer},
		Wrote: func(pod metav1.Object) { c.writtenPods.Wrote(pod, job.UID) },
	}
	claimed, err = ownership.Claim(ctx, c.client, owner, pods.Kind(), all)
	if err != nil {
		return nil, false, err
	}
	for i, pod := range claimed {
		if !metav1.IsControlledBy(pod, job) && !tracked(pod) { // adopted just now
			claimed[i] = pod.DeepCopy()
			claimed[i].Finalizers = append(claimed[i].Finalizers, batchv1.JobTrackingFinalizer)
		}
	}
	return claimed, true, nil
}

// jobsSelecting returns the jobs that could adopt a pod.
func (c *Controller) jobsSelecting(pod *corev1.Pod) []*batchv1.Job {
	var out []*batchv1.Job
	if len(pod.Labels) == 0 {
		return nil
	}
	for _, job := range c.in.Jobs.List(pod.Namespace) {
		if s, err := metav1.LabelSelectorAsSelector(job.Spec.Selector); err == nil && s.Matches(labels.Set(pod.Labels)) {
			out = append(out, job)
		}
	}
	return out
}

func (c *Controller) record(job *batchv1.Job, eventType, reason, message string) {
	c.recorder.Record(events.Event{
		Regarding: events.About(kind().GroupVersionKind, job),
		Type:      eventType, Reason: reason, Message: message,
	})
}
