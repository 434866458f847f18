package pods

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/informer"
)

// byClaim is upstream's name of the index of pods by their claims.
const byClaim = "pod-pvc-index"

// IndexByClaim adds the index that UsingClaim reads. It must be called before the informer runs; calling it again does
// nothing.
func IndexByClaim(in *informer.Informer[*corev1.Pod]) {
	in.AddIndex(byClaim, func(pod *corev1.Pod) []string {
		claims := Claims(pod)
		for i := range claims {
			claims[i] = pod.Namespace + "/" + claims[i]
		}
		return claims
	})
}

// UsingClaim returns the pods with a volume that is the claim, in key order.
func UsingClaim(in *informer.Informer[*corev1.Pod], namespace, claim string) []*corev1.Pod {
	return in.ByIndex(byClaim, namespace+"/"+claim)
}

// Claims returns the names of the claims that are a pod's volumes, each once; those of ephemeral volumes too, whether
// they were made for the pod or not.
func Claims(pod *corev1.Pod) []string {
	var claims []string
	for i := range pod.Spec.Volumes {
		if claim := ClaimOf(pod, &pod.Spec.Volumes[i]); claim != "" && !slices.Contains(claims, claim) {
			claims = append(claims, claim)
		}
	}
	return claims
}

// ClaimOf returns the name of the claim that is a pod's volume, or "".
func ClaimOf(pod *corev1.Pod, volume *corev1.Volume) string {
	switch {
	case volume.PersistentVolumeClaim != nil:
		return volume.PersistentVolumeClaim.ClaimName
	case volume.Ephemeral != nil:
		return pod.Name + "-" + volume.Name
	}
	return ""
}

// DoneWithVolumes reports whether no container of a pod uses its volumes any more: the pod has ended, or is being deleted
// and none runs.
func DoneWithVolumes(pod *corev1.Pod) bool {
	if Terminal(pod) {
		return true
	}
	return pod.DeletionTimestamp != nil && !slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.State.Terminated == nil && s.State.Waiting == nil
	})
}
