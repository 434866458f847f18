package pods

import (
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/admission"
)

// In returns the pod that a request is about, or nil if it is about another kind or a subresource. It fails if the object is no
// pod although the request says so.
func In(r *admission.Request) (*corev1.Pod, error) {
	if r.Resource.GroupResource() != (schema.GroupResource{Resource: "pods"}) || r.Subresource != "" {
		return nil, nil
	}
	pod, ok := r.Object.(*corev1.Pod)
	if !ok {
		return nil, admission.BadRequest("Resource was marked with kind Pod but was unable to be converted")
	}
	return pod, nil
}

// Changed returns the new and the old pod of an update that changes the spec of a pod on a node, through one of these subresources,
// of which "" is the pod itself; nil for other requests. It fails if an object is no pod although the request says so.
func Changed(r *admission.Request, subresources ...string) (pod, old *corev1.Pod, err error) {
	if r.Resource.GroupResource() != (schema.GroupResource{Resource: "pods"}) || !slices.Contains(subresources, r.Subresource) {
		return nil, nil, nil
	}
	pod, ok := r.Object.(*corev1.Pod)
	if !ok {
		return nil, nil, admission.BadRequest("expected a pod but got a %T", r.Object)
	}
	if pod.Spec.NodeName == "" {
		return nil, nil, nil
	}
	if old, ok = r.OldObject.(*corev1.Pod); !ok {
		return nil, nil, admission.BadRequest("expected an old pod but got a %T", r.OldObject)
	}
	if old.Generation == pod.Generation { // it counts the changes of the spec
		return nil, nil, nil
	}
	return pod, old, nil
}

// Containers yields all containers of a pod, ephemeral ones as well, with their paths.
func Containers(spec *corev1.PodSpec) iter.Seq2[*field.Path, *corev1.Container] {
	return func(yield func(*field.Path, *corev1.Container) bool) {
		path := field.NewPath("spec")
		for i := range spec.InitContainers {
			if !yield(path.Child("initContainers").Index(i), &spec.InitContainers[i]) {
				return
			}
		}
		for i := range spec.Containers {
			if !yield(path.Child("containers").Index(i), &spec.Containers[i]) {
				return
			}
		}
		for i := range spec.EphemeralContainers {
			c := (*corev1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon)
			if !yield(path.Child("ephemeralContainers").Index(i), c) {
				return
			}
		}
	}
}
