package decision

import (
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Relevant reports whether a change of a pod may require action. Most changes are the kubelet's own status updates.
func Relevant(before, after *corev1.Pod) bool {
	return before.Generation != after.Generation ||
		Urgent(before, after) ||
		Terminal(before.Status.Phase) != Terminal(after.Status.Phase) ||
		othersChanged(before.Status.Conditions, after.Status.Conditions) ||
		!reflect.DeepEqual(before.Labels, after.Labels) ||
		!reflect.DeepEqual(before.Annotations, after.Annotations)
}

// Urgent reports whether a change of a pod must interrupt its worker: the pod is to end, or to end earlier.
func Urgent(before, after *corev1.Pod) bool {
	if after.DeletionTimestamp == nil {
		return false
	}
	return before.DeletionTimestamp == nil || Grace(after) < Grace(before)
}

// othersChanged reports whether conditions that others set differ.
func othersChanged(a, b []corev1.PodCondition) bool {
	others := func(list []corev1.PodCondition) []corev1.PodCondition {
		return slices.DeleteFunc(slices.Clone(list), func(c corev1.PodCondition) bool { return ownedCondition(c.Type) })
	}
	return !slices.Equal(others(a), others(b))
}
