package job

import (
	"maps"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/ownership"
	"github.com/keelson-dev/keelson/informer"
)

// Watch implements controllers.Controller.
func (c *Controller) Watch(q controllers.Queue) []controllers.Synced {
	c.in.Jobs.AddHandler(informer.Handler[*batchv1.Job]{
		Added: func(job *batchv1.Job) { q.Add(controllers.KeyOf(job)) },
		Updated: func(old, job *batchv1.Job) {
			switch {
			case finished(job):
				c.forget(controllers.KeyOf(job))
			case old.Generation == job.Generation:
				q.AddAfter(controllers.KeyOf(job), batchPeriod) // mostly the own updates of the status
			default:
				q.Add(controllers.KeyOf(job))
			}
		},
		Deleted: func(job *batchv1.Job) {
			// A new job with the same name starts without expectations.
			c.forget(controllers.KeyOf(job))
			c.expected.Forget(controllers.KeyOf(job))
			q.Add(controllers.KeyOf(job))
		},
	})
	w := podWatch{Controller: c, queue: q}
	c.in.Pods.AddHandler(informer.Handler[*corev1.Pod]{Added: w.added, Updated: w.updated, Deleted: w.gone})
	return []controllers.Synced{c.in.Pods, c.in.Jobs}
}

// podWatch finds the jobs affected by a change of a pod. Their keys wait a while: the pods of a job often end together.
type podWatch struct {
	*Controller
	queue controllers.Queue
}

func (w podWatch) add(job *batchv1.Job) { w.queue.AddAfter(controllers.KeyOf(job), batchPeriod) }

func (w podWatch) added(pod *corev1.Pod) {
	if pod.DeletionTimestamp != nil {
		w.deleted(pod)
		return
	}
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil {
		w.orphan(pod)
	} else if job, ok := w.owner(pod.Namespace, ref); ok {
		w.expected.Created(controllers.KeyOf(job))
		w.add(job)
	}
}

func (w podWatch) updated(old, pod *corev1.Pod) {
	if pod.DeletionTimestamp != nil {
		w.deleted(pod)
		return
	}
	moved := !ownership.SameController(old, pod)
	if moved {
		if job, ok := w.owner(old.Namespace, metav1.GetControllerOfNoCopy(old)); ok {
			w.add(job)
		}
	}
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil {
		if moved || !maps.Equal(old.Labels, pod.Labels) {
			w.orphan(pod)
		}
	} else if job, ok := w.owner(pod.Namespace, ref); ok {
		w.add(job)
	}
}

func (w podWatch) gone(pod *corev1.Pod) {
	w.writtenPods.Forget(controllers.KeyOf(pod))
	w.deleted(pod)
}

func (w podWatch) deleted(pod *corev1.Pod) {
	if job, ok := w.owner(pod.Namespace, metav1.GetControllerOfNoCopy(pod)); ok && !finished(job) {
		w.expected.Deleted(controllers.KeyOf(job), pod.Name)
		w.add(job)
	}
}

func (w podWatch) owner(namespace string, ref *metav1.OwnerReference) (*batchv1.Job, bool) {
	return ownership.Resolve(w.in.Jobs, kind().Kind, namespace, ref)
}

func (w podWatch) orphan(pod *corev1.Pod) {
	for _, job := range w.jobsSelecting(pod) {
		w.add(job)
	}
}
