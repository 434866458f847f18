package decision

import (
	"slices"
	"time"

	"github.com/keelson-dev/keelson/podspec/qos"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Merge returns the status to write: the kubelet's, with the parts that others own. A pod is not reported as ended
// while its containers may run.
func Merge(pod *corev1.Pod, status corev1.PodStatus, mayRun bool, now time.Time) corev1.PodStatus {
	old := pod.Status
	merged := *old.DeepCopy()
	own := status.DeepCopy()
	merged.ObservedGeneration = own.ObservedGeneration
	merged.Phase, merged.Reason, merged.Message = own.Phase, own.Reason, own.Message
	merged.HostIP, merged.HostIPs = own.HostIP, own.HostIPs
	merged.PodIP, merged.PodIPs = own.PodIP, own.PodIPs
	merged.StartTime, merged.QOSClass = own.StartTime, own.QOSClass
	merged.InitContainerStatuses = own.InitContainerStatuses
	merged.ContainerStatuses = own.ContainerStatuses
	merged.EphemeralContainerStatuses = own.EphemeralContainerStatuses
	merged.Resources, merged.AllocatedResources = own.Resources, own.AllocatedResources
	merged.Conditions = slices.DeleteFunc(merged.Conditions, func(c corev1.PodCondition) bool { return ownedCondition(c.Type) })
	for _, c := range own.Conditions {
		if c.Type == corev1.DisruptionTarget && findCondition(merged.Conditions, c.Type) == nil || ownedCondition(c.Type) {
			merged.Conditions = append(merged.Conditions, c)
		}
	}
	if mayRun && !Terminal(old.Phase) && Terminal(merged.Phase) {
		merged.Phase, merged.Reason, merged.Message = old.Phase, old.Reason, old.Message
	}
	if Terminal(merged.Phase) {
		endReadiness(&merged, now)
	}
	return merged
}

// endReadiness makes sure that a pod that has ended is not reported as ready.
func endReadiness(status *corev1.PodStatus, now time.Time) {
	reason := "PodCompleted"
	if status.Phase == corev1.PodFailed {
		reason = "PodFailed"
	}
	for i := range status.Conditions {
		c := &status.Conditions[i]
		if (c.Type == corev1.PodReady || c.Type == corev1.ContainersReady) && c.Status == corev1.ConditionTrue {
			c.Status, c.Reason, c.Message = corev1.ConditionFalse, reason, ""
			c.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second).UTC())
		}
	}
}

// Refused returns the status of a pod that the node rejects: none of its containers runs, and it has failed.
func Refused(pod *corev1.Pod, reason, message string, now time.Time) corev1.PodStatus {
	start := pod.Status.StartTime.DeepCopy()
	if start.IsZero() {
		start = &metav1.Time{Time: now.Truncate(time.Second).UTC()}
	}
	return corev1.PodStatus{
		ObservedGeneration: pod.Generation,
		QOSClass:           qos.Class(pod),
		Phase:              corev1.PodFailed,
		Reason:             reason,
		Message:            "Pod was rejected: " + message,
		StartTime:          start,
	}
}
