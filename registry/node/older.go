package node

import (
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/api/node/v1alpha1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/registry"
)

// olderClasses returns the versions in which servers stored classes before v1: v1beta1 is v1 under another name; in v1alpha1
// all fields are below spec.
func olderClasses() []registry.Older {
	return []registry.Older{{
		GroupVersion: schema.GroupVersion{Group: nodev1.GroupName, Version: "v1beta1"},
		New:          func() runtime.Object { return &nodev1.RuntimeClass{} },
		ToStored:     func(obj runtime.Object) registry.Object { return obj.(registry.Object) },
	}, {
		GroupVersion: v1alpha1.SchemeGroupVersion,
		New:          func() runtime.Object { return &v1alpha1.RuntimeClass{} },
		ToStored:     func(obj runtime.Object) registry.Object { return fromV1alpha1(obj.(*v1alpha1.RuntimeClass)) },
	}}
}

func fromV1alpha1(old *v1alpha1.RuntimeClass) *nodev1.RuntimeClass {
	return &nodev1.RuntimeClass{
		ObjectMeta: old.ObjectMeta, Handler: old.Spec.RuntimeHandler,
		Overhead: (*nodev1.Overhead)(old.Spec.Overhead), Scheduling: (*nodev1.Scheduling)(old.Spec.Scheduling),
	}
}
