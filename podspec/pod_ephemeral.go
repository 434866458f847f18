package podspec

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateEphemeralContainersUpdate validates an update of a pod's ephemeral containers (KEP-277), which may be added
// but neither changed nor removed. The caller ensures that nothing else in the pod has changed.
func ValidateEphemeralContainersUpdate(pod, old *corev1.Pod) field.ErrorList {
	if isMirror(old.Annotations) {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "static pods do not support ephemeral containers")}
	}
	v := newValidator(&pod.Spec, &pod.ObjectMeta, podUpdate(old))
	v.wholePod(pod)
	v.annotationUpdates(pod.Annotations, old.Annotations, field.NewPath("metadata", "annotations"))
	path := field.NewPath("spec", "ephemeralContainers")
	byName := map[string]*corev1.EphemeralContainer{}
	for i := range pod.Spec.EphemeralContainers {
		byName[pod.Spec.EphemeralContainers[i].Name] = &pod.Spec.EphemeralContainers[i]
	}
	for i := range old.Spec.EphemeralContainers {
		before := &old.Spec.EphemeralContainers[i]
		now := byName[before.Name]
		if now == nil {
			v.forbidden(path, fmt.Sprintf("existing ephemeral containers %q may not be removed\n", before.Name))
		} else if !equality.Semantic.DeepEqual(before, now) {
			v.forbidden(path, fmt.Sprintf("existing ephemeral containers %q may not be changed\n%v", before.Name,
				diff.Diff(asInternal(before), asInternal(now))))
		}
	}
	return v.errs
}
