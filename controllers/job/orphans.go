package job

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/ownership"
	"github.com/keelson-dev/keelson/informer"
)

// Orphans is the part of the job-controller that takes the finalizer from pods that no job will count: their job has
// gone or has finished, or they have none. Make one with NewOrphans.
type Orphans struct {
	in     Sources
	client client.Patcher
}

var _ interface {
	controllers.Controller
	controllers.Retrier
} = (*Orphans)(nil)

// NewOrphans makes the controller, which patches pods.
func NewOrphans(in Sources, c client.Patcher) *Orphans { return &Orphans{in: in, client: c} }

// Name is "job_orphan_pod", upstream's name of the queue.
func (*Orphans) Name() string { return "job_orphan_pod" }

// Retry is that of the Controller.
func (*Orphans) Retry() controllers.Retry { return retry() }

// Watch implements controllers.Controller.
func (o *Orphans) Watch(q controllers.Queue) []controllers.Synced {
	look := func(pod *corev1.Pod) {
		if o.abandoned(pod) {
			q.Add(controllers.KeyOf(pod))
		}
	}
	o.in.Pods.AddHandler(informer.Handler[*corev1.Pod]{
		Added:   look,
		Updated: func(_, pod *corev1.Pod) { look(pod) },
	})
	release := func(job *batchv1.Job) {
		selector, err := metav1.LabelSelectorAsSelector(job.Spec.Selector)
		if err != nil {
			return // validation does not let this in
		}
		for _, pod := range o.in.Pods.List(job.Namespace) {
			if tracked(pod) && selector.Matches(labels.Set(pod.Labels)) {
				q.Add(controllers.KeyOf(pod))
			}
		}
	}
	o.in.Jobs.AddHandler(informer.Handler[*batchv1.Job]{
		Updated: func(_, job *batchv1.Job) {
			if finished(job) {
				release(job)
			}
		},
		Deleted: release,
	})
	return []controllers.Synced{o.in.Pods, o.in.Jobs}
}

// abandoned reports whether a changed pod may be one that no job counts: it has no controller, or is being deleted after
// its job has ended.
func (o *Orphans) abandoned(pod *corev1.Pod) bool {
	if !tracked(pod) {
		return false
	}
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil {
		return true
	}
	if pod.DeletionTimestamp == nil {
		return false
	}
	job, ok := ownership.Resolve(o.in.Jobs, kind().Kind, pod.Namespace, ref)
	return !ok || finished(job)
}

// Reconcile takes the finalizer from one pod, unless it has a job that will.
func (o *Orphans) Reconcile(ctx context.Context, key controllers.Key) (controllers.Result, error) {
	pod, ok := o.in.Pods.Get(key.Namespace, key.Name)
	if !ok || !tracked(pod) {
		return controllers.Result{}, nil
	}
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
		if ref.Kind != kind().Kind || ref.APIVersion != batchv1.SchemeGroupVersion.String() {
			return controllers.Result{}, nil // of another controller, which may know what it is for
		}
		if job, ok := ownership.Resolve(o.in.Jobs, kind().Kind, pod.Namespace, ref); ok && (external(job) || !finished(job)) {
			return controllers.Result{}, nil
		}
	}
	_, err := release(ctx, o.client, pod)
	return controllers.Result{}, ignoreMissing(err)
}
