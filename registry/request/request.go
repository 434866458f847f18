package request

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// InNamespace sets an object's namespace to the request's, unless the object names another. An empty namespace
// accepts any.
func InNamespace(obj metav1.Object, namespace string) error {
	if own := obj.GetNamespace(); own == namespace || own == "" || namespace == "" {
		obj.SetNamespace(namespace)
		return nil
	}
	return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
}

// At checks that an object's name and namespace are those of the request.
func At(obj metav1.Object, namespace, name string) error {
	if obj.GetName() == "" {
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s based on URL) was undeterminable: name must be provided", name))
	}
	if obj.GetName() != name {
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", obj.GetName(), name))
	}
	if namespace != "" && obj.GetNamespace() != "" && obj.GetNamespace() != namespace {
		return apierrors.NewBadRequest(fmt.Sprintf("the namespace of the object (%s) does not match the namespace on the request (%s)", obj.GetNamespace(), namespace))
	}
	return nil
}

// Wipe clears the fields of a new object that a client cannot set.
func Wipe(obj metav1.Object) {
	obj.SetCreationTimestamp(metav1.Time{})
	obj.SetDeletionTimestamp(nil)
	obj.SetDeletionGracePeriodSeconds(nil)
	obj.SetUID("")
	obj.SetSelfLink("")
}

// Options returns the error for invalid options of a kind such as "PatchOptions"; nil if they are valid.
func Options(kind string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: kind}, "", errs)
}
