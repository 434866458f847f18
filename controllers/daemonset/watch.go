package daemonset

import (
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/internal/pods"
	"github.com/keelson-dev/keelson/controllers/ownership"
)

// owner returns the set that a reference names.
func (c *Controller) owner(namespace string, ref *metav1.OwnerReference) (*appsv1.DaemonSet, bool) {
	return ownership.Resolve(c.in.DaemonSets, kind().Kind, namespace, ref)
}

// selecting enqueues every set that could adopt an object.
func (c *Controller) selecting(q controllers.Queue, obj metav1.Object) {
	if len(obj.GetLabels()) == 0 {
		return
	}
	for _, set := range c.in.DaemonSets.List(obj.GetNamespace()) {
		selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
		if err == nil && !selector.Empty() && selector.Matches(labels.Set(obj.GetLabels())) {
			q.Add(controllers.KeyOf(set))
		}
	}
}

// podWatch finds the sets affected by a change of a pod.
type podWatch struct {
	*Controller
	queue controllers.Queue
}

func (w podWatch) added(pod *corev1.Pod) {
	if pod.DeletionTimestamp != nil {
		w.deleted(pod)
		return
	}
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil {
		w.selecting(w.queue, pod)
		return
	}
	if set, ok := w.owner(pod.Namespace, ref); ok {
		w.seen.expected.Created(controllers.KeyOf(set))
		w.queue.Add(controllers.KeyOf(set))
	}
}

func (w podWatch) updated(old, pod *corev1.Pod) {
	if pod.DeletionTimestamp != nil {
		w.deleted(pod) // which fulfills the expectation: replacements need not wait for its end
		return
	}
	moved := !ownership.SameController(old, pod)
	if moved {
		if set, ok := w.owner(old.Namespace, metav1.GetControllerOfNoCopy(old)); ok {
			w.queue.Add(controllers.KeyOf(set))
		}
	}
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil {
		if moved || !maps.Equal(old.Labels, pod.Labels) {
			w.selecting(w.queue, pod)
		}
		return
	}
	set, ok := w.owner(pod.Namespace, ref)
	if !ok {
		return
	}
	w.queue.Add(controllers.KeyOf(set))
	if least := set.Spec.MinReadySeconds; least > 0 && !pods.Ready(old) && pods.Ready(pod) {
		// One second more, since the time of the condition has no fractions.
		w.queue.AddAfter(controllers.KeyOf(set), time.Duration(least+1)*time.Second)
	}
}

func (w podWatch) gone(pod *corev1.Pod) {
	w.seen.pods.Forget(controllers.KeyOf(pod))
	w.deleted(pod)
}

func (w podWatch) deleted(pod *corev1.Pod) {
	if set, ok := w.owner(pod.Namespace, metav1.GetControllerOfNoCopy(pod)); ok {
		w.seen.expected.Deleted(controllers.KeyOf(set), pod.Name)
		w.queue.Add(controllers.KeyOf(set))
	}
}

// revisionWatch finds the sets affected by a change of a revision.
type revisionWatch struct {
	*Controller
	queue controllers.Queue
}

func (w revisionWatch) added(r *appsv1.ControllerRevision) {
	switch {
	case r.DeletionTimestamp != nil:
		w.enqueue(r)
	case metav1.GetControllerOfNoCopy(r) == nil:
		w.selecting(w.queue, r)
	}
}

func (w revisionWatch) updated(old, r *appsv1.ControllerRevision) {
	moved := !ownership.SameController(old, r)
	if moved {
		w.enqueue(old)
	}
	if metav1.GetControllerOfNoCopy(r) != nil {
		w.enqueue(r)
		return
	}
	if moved || !maps.Equal(old.Labels, r.Labels) {
		w.selecting(w.queue, r)
	}
}

func (w revisionWatch) gone(r *appsv1.ControllerRevision) {
	w.seen.revisions.Forget(controllers.KeyOf(r))
	w.enqueue(r)
}

// enqueue enqueues the set that controls a revision.
func (w revisionWatch) enqueue(r *appsv1.ControllerRevision) {
	if set, ok := w.owner(r.Namespace, metav1.GetControllerOfNoCopy(r)); ok {
		w.queue.Add(controllers.KeyOf(set))
	}
}
