package storage

import (
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/registry"
)

// older returns versions in which servers stored a kind before v1. All have fields of v1, with the same names, numbers and
// defaults, so that they are decoded as v1.
func older(empty func() registry.Object, versions ...string) []registry.Older {
	var out []registry.Older
	for _, version := range versions {
		out = append(out, registry.Older{
			GroupVersion: schema.GroupVersion{Group: storagev1.GroupName, Version: version},
			New:          func() runtime.Object { return empty() },
			ToStored:     func(obj runtime.Object) registry.Object { return obj.(registry.Object) },
		})
	}
	return out
}
