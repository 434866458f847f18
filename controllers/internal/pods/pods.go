// Package pods has predicates on pods that several controllers share.
package pods

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/controllers/ownership"
)

// Kind returns the kind of pods.
func Kind() ownership.Kind {
	return ownership.Kind{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Pod"), Resource: "pods"}
}

// Terminal reports whether the pod's containers have ended for good.
func Terminal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// Active reports whether the pod has not ended and is not being deleted.
func Active(pod *corev1.Pod) bool {
	return !Terminal(pod) && pod.DeletionTimestamp == nil
}

// Terminating reports whether the pod is being deleted and has not ended.
func Terminating(pod *corev1.Pod) bool {
	return !Terminal(pod) && pod.DeletionTimestamp != nil
}

// Condition returns the pod's condition of that type, or nil.
func Condition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// Ready reports whether the pod's Ready condition is true.
func Ready(pod *corev1.Pod) bool {
	c := Condition(pod, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

// ReadySince returns when the pod became ready; the zero time if it is not ready or the time is unset.
func ReadySince(pod *corev1.Pod) time.Time {
	if !Ready(pod) {
		return time.Time{}
	}
	return Condition(pod, corev1.PodReady).LastTransitionTime.Time
}

// Available reports whether the pod has been ready for minReadySeconds at now.
func Available(pod *corev1.Pod, minReadySeconds int32, now time.Time) bool {
	if !Ready(pod) {
		return false
	}
	since := ReadySince(pod)
	wait := time.Duration(minReadySeconds) * time.Second
	return minReadySeconds == 0 || !since.IsZero() && !since.Add(wait).After(now)
}

// UntilAvailable returns how long after now the next ready pod becomes available, and false if there is none.
func UntilAvailable(pods []*corev1.Pod, minReadySeconds int32, now time.Time) (time.Duration, bool) {
	var least time.Duration
	wait := time.Duration(minReadySeconds) * time.Second
	for _, pod := range pods {
		// A pod without a transition time counts as ready since the year 1.
		if left := ReadySince(pod).Add(wait).Sub(now); left > 0 {
			least = min(left, cmp.Or(least, left))
		}
	}
	return least, least > 0
}

// FromTemplate returns the pod that a template describes, named after and controlled by owner.
func FromTemplate(template *corev1.PodTemplateSpec, owner metav1.Object, ref metav1.OwnerReference) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName:    owner.GetName() + "-",
			Labels:          maps.Clone(template.Labels),
			Annotations:     maps.Clone(template.Annotations),
			Finalizers:      slices.Clone(template.Finalizers),
			OwnerReferences: []metav1.OwnerReference{ref},
		},
		Spec: *template.Spec.DeepCopy(),
	}
}
