package pvcprotection

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/controllers/internal/pods"
)

// holds reports whether a claim must not disappear because of a pod: one with a node, since kubelets start no pod whose
// claim is being deleted. An ephemeral volume's claim is not held by a pod that its kubelet is done with: both may wait
// for each other otherwise.
func holds(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) bool {
	shut := pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0 // it is set by the deletion
	return pod.Spec.NodeName != "" && has(pod, claim, !shut)
}

// refers reports whether a pod that has not ended has a claim among its volumes.
func refers(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) bool {
	return !pods.DoneWithVolumes(pod) && has(pod, claim, true)
}

// has reports whether a claim is one of a pod's volumes, or is made for one of them if ephemeral is set.
func has(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim, ephemeral bool) bool {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		own := v.Ephemeral == nil || ephemeral && pod.Namespace == claim.Namespace && metav1.IsControlledBy(claim, pod)
		if pods.ClaimOf(pod, v) == claim.Name && own {
			return true
		}
	}
	return false
}

// withUnused returns a claim with the condition Unused, and whether that is a change.
func withUnused(claim *corev1.PersistentVolumeClaim, used bool, now metav1.Time) (*corev1.PersistentVolumeClaim, bool) {
	want := corev1.PersistentVolumeClaimCondition{
		Type: corev1.PersistentVolumeClaimUnused, Status: corev1.ConditionTrue, LastTransitionTime: now,
		Reason: "NoPodsUsingPVC", Message: "No pods are currently referencing this PVC",
	}
	if used {
		want.Status, want.Reason, want.Message = corev1.ConditionFalse, "PodUsingPVC", "A pod is currently referencing this PVC"
	}
	had := unused(claim.Status.Conditions)
	if had != nil && (had.Status == corev1.ConditionTrue) != used {
		return claim, false
	}
	next := claim.DeepCopy()
	if c := unused(next.Status.Conditions); c != nil {
		*c = want
	} else {
		next.Status.Conditions = append(next.Status.Conditions, want)
	}
	return next, true
}

func unused(conditions []corev1.PersistentVolumeClaimCondition) *corev1.PersistentVolumeClaimCondition {
	for i := range conditions {
		if conditions[i].Type == corev1.PersistentVolumeClaimUnused {
			return &conditions[i]
		}
	}
	return nil
}
