package statefulset

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

// podWatch finds the StatefulSets affected by a change of a pod.
type podWatch struct {
	*Controller
	queue controllers.Queue
}

func (w podWatch) added(pod *corev1.Pod) {
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
		w.owned(pod)
	} else if pod.DeletionTimestamp == nil {
		w.orphan(pod)
	}
}

func (w podWatch) updated(old, pod *corev1.Pod) {
	moved := !ownership.SameController(old, pod)
	if moved {
		w.owned(old)
	}
	if metav1.GetControllerOfNoCopy(pod) == nil {
		if moved || !maps.Equal(old.Labels, pod.Labels) {
			w.orphan(pod)
		}
		return
	}
	set, ok := w.owned(pod)
	if ok && set.Spec.MinReadySeconds > 0 && !pods.Ready(old) && pods.Ready(pod) {
		w.queue.AddAfter(controllers.KeyOf(set), time.Duration(set.Spec.MinReadySeconds)*time.Second)
	}
}

func (w podWatch) deleted(pod *corev1.Pod) { w.owned(pod) }

// owned enqueues the StatefulSet that controls the pod, if there is one.
func (w podWatch) owned(pod *corev1.Pod) (*appsv1.StatefulSet, bool) {
	set, ok := ownership.Resolve(w.in.StatefulSets, kind().Kind, pod.Namespace, metav1.GetControllerOfNoCopy(pod))
	if ok {
		w.queue.Add(controllers.KeyOf(set))
	}
	return set, ok
}

// orphan enqueues every StatefulSet that could adopt the pod.
func (w podWatch) orphan(pod *corev1.Pod) {
	if len(pod.Labels) == 0 {
		return
	}
	for _, set := range w.in.StatefulSets.List(pod.Namespace) {
		selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
		if err == nil && !selector.Empty() && selector.Matches(labels.Set(pod.Labels)) {
			w.queue.Add(controllers.KeyOf(set))
		}
	}
}
