package request

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry"
)

// ReadScale returns the Scale of an object, or an error with upstream's Status.
func ReadScale(of registry.Scale[registry.Object], obj registry.Object) (*autoscalingv1.Scale, error) {
	if of.Readable != nil {
		if err := of.Readable(obj); err != nil {
			return nil, apierrors.NewInternalError(err)
		}
	}
	return registry.NewScale(of, obj), nil
}

// Scale validates a Scale that is written to the named object.
func Scale(of registry.Scale[registry.Object], s *autoscalingv1.Scale, name string) error {
	if of.Validated || s.Spec.Replicas >= 0 {
		return nil
	}
	return apierrors.NewInvalid(autoscalingv1.SchemeGroupVersion.WithKind("Scale").GroupKind(), name, field.ErrorList{field.Invalid(
		field.NewPath("spec", "replicas"), s.Spec.Replicas, "must be greater than or equal to 0").WithOrigin("minimum")})
}

// SetScale applies a Scale to its object: the replica count, and the preconditions of the update.
func SetScale(to registry.Scale[registry.Object], obj registry.Object, s *autoscalingv1.Scale) {
	if s.ResourceVersion != "" {
		obj.SetResourceVersion(s.ResourceVersion)
	}
	if s.UID != "" {
		obj.SetUID(s.UID)
	}
	to.Set(obj, s.Spec.Replicas)
}
